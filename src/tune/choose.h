// SPDX-License-Identifier: Apache-2.0
//
// The choice: one state per layer (a tactic with its types and formats), minimal in the sum of layers and
// reformats.
#pragma once

#include <vector>

#include "base/observer.h"
#include "tune/reformat_costs.h"

namespace lathe {

struct LayerState {
  Tactic tactic;
  double ms = 0;
  // The layer is a part of this alternative (alternatives.h), in this one of its states; -1: it runs by
  // itself.
  int alternative = -1, variant = -1;
};

// The network's relative error from tactics that are less exact than direct summation: the root of the sum of
// squares of their errors stays below it. FP32 engines are promised at 1e-5 of the oracle, and summation
// order takes its part.
inline constexpr double kErrorBudget = 7e-6;

// Of the states with the same types keeps the fastest, and the fastest exact one when that is another.
std::vector<LayerState> undominated(const std::vector<Tactic>& tactics, const std::vector<double>& times);

// One state number per layer in graph order. `states` may lose inexact states that the error budget forbids.
std::vector<size_t> choose_states(const Graph& graph, std::vector<std::vector<LayerState>>& states,
                                  ReformatCosts& reformats, const TuningTraits& traits);

}  // namespace lathe
