// SPDX-License-Identifier: Apache-2.0
//
// An engine with other weights and the same layers. The passes run again on the portable graph with its new
// weights, so that whatever they fold is folded anew; each layer of the engine then takes operator and
// constants of the layer of its name, and keeps its tactic, types and formats. Nothing is timed.
//
// Right because the engine's graph is compared with what the passes made, layer by layer: same operators,
// same operands, same shapes. Weights that lead to other layers (a factor that was exactly 1 and is not any
// more) are refused with the layer's name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "builder/network.h"

namespace lathe {

struct RefittableWeights {
  std::string name;  // the initializer's
  DType dtype = DType::Undefined;
  Extents extents;
  bool missing = false;  // the plan was stripped of them
};

// The constants of a portable graph, in its order; not those inside of bodies.
std::vector<RefittableWeights> refittable_weights(const Graph& portable);

using NamedWeights = std::map<std::string, Tensor, std::less<>>;
// Throws for names that the graph has not, and for other types or extents than it has.
void check_weights(const Graph& portable, const NamedWeights& weights);
// The graph with these weights, which are checked.
Graph with_weights(const Graph& portable, const NamedWeights& weights);

// What the passes made of a portable graph: with the rewrites that are always made, and with the optional
// ones, too.
struct OptimizedGraphs {
  const Graph& plain;
  const Graph& fused;
};
// The layers of `built` with operators and constants of `optimized`, without packed weights. Throws where
// they are not the same layers.
PlanVariant refit_variant(const PlanVariant& built, const OptimizedGraphs& optimized);

}  // namespace lathe
