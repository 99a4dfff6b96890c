// SPDX-License-Identifier: Apache-2.0
//
// The pieces that layer norm and RMS norm are written out in: a mean over trailing axes, a square, 1 / sqrt(v
// + epsilon).
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace lathe {

// First axis of a mean over all axes from there to the last, kept as 1; nullopt for other nodes.
std::optional<int64_t> trailing_mean_axis(const Graph& graph, NodeId node);

// The node that computes value * value: Square, Pow(value, 2) or Mul(value, value).
bool is_square_of(const Graph& graph, NodeId node, ValueId value);

// What divides by the root of (variance + epsilon): from the node that adds epsilon to the one that gives
// `numerator / root`.
struct RootDivision {
  float epsilon = 0;
  ValueId variance = kNoValue;
  std::vector<NodeId> nodes;  // in data order, the last one divides
};
// `last` as Div(numerator, Sqrt(variance + e)), or Mul of numerator with Reciprocal(Sqrt), Rsqrt or 1 / Sqrt.
std::optional<RootDivision> match_root_division(const Graph& graph, NodeId last, ValueId numerator);

}  // namespace lathe
