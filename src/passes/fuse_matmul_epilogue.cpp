// SPDX-License-Identifier: Apache-2.0
//
//   MatMul + bias + activation + residual  ->  MatMul with epilogue {Add(0,1) GeluErf(3) Add(4,2)}
//
// Every pointwise node that alone reads the product joins its epilogue. Must not fire when the product is
// read by anything else, or when an operand is wider than it.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {

bool fuse_matmul_epilogue(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    while (!graph.node(id).removed && std::holds_alternative<MatMul>(graph.node(id).op)) {
      const auto user = sole_user(graph, result_of(graph, id));
      if (!user || !append_to_epilogue(graph, context, id, *user)) break;
      changed = true;
    }
  }
  return changed;
}

}  // namespace lathe
