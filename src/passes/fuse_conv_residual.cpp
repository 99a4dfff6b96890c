// SPDX-License-Identifier: Apache-2.0
//
//   Conv + (its result with another tensor)  ->  Conv with epilogue {Add(0,1)} and one more input
// for sums (residual connections), products (squeeze-and-excite) and whatever else a pointwise node does with
// operands that broadcast to the result.
//
// Of two convolutions that are added the first in order takes the sum, and then runs after the other one.
// Must not fire when the convolution's own result is read by anything else, or when the sum is wider than it.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {

bool fuse_conv_residual(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed) continue;
    const Node& node = graph.node(id);
    if (!std::holds_alternative<Conv>(node.op) && !std::holds_alternative<ConvTranspose>(node.op)) continue;
    const auto user = sole_user(graph, result_of(graph, id));
    if (user) changed |= append_to_epilogue(graph, context, id, *user);
  }
  return changed;
}

}  // namespace lathe
