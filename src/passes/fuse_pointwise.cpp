// SPDX-License-Identifier: Apache-2.0
//
//   Mul, Add, Relu in a row  ->  one PointwiseChain {Mul(0,1) Add(3,2) Relu(4)}
//
// Runs last: what can be the tail of a convolution or product should be that. Must not fire when the first
// result is read by anything else, when shapes differ (a small tensor would be computed once per element of
// the large one), when types differ, or on integers of fewer than two dims, which may be a shape.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {

bool fuse_pointwise(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    while (!graph.node(id).removed && is_pointwise_layer(graph.node(id))) {
      const auto user = sole_user(graph, result_of(graph, id));
      if (!user || !join_pointwise(graph, context, id, *user)) break;
      changed = true;
    }
  }
  return changed;
}

}  // namespace lathe
