// SPDX-License-Identifier: Apache-2.0
//
//   Conv + activation  ->  Conv with epilogue {Relu(0)}        any function of one operand: Relu, Clip, Silu,
//                                                              Sigmoid, ...
//
// Must not fire when the convolution's own result is read by anything else or is a graph output.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool is_convolution(const Node& node) {
  return std::holds_alternative<Conv>(node.op) || std::holds_alternative<ConvTranspose>(node.op);
}

}  // namespace

bool fuse_conv_activation(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    while (!graph.node(id).removed && is_convolution(graph.node(id))) {
      const auto user = sole_user(graph, result_of(graph, id));
      const auto* op = user ? plain_op<Pointwise>(graph, *user) : nullptr;
      if (!op || pointwise_info(op->code).arity != 1) break;
      if (!append_to_epilogue(graph, context, id, *user)) break;
      changed = true;
    }
  }
  return changed;
}

}  // namespace lathe
