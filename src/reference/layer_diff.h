// SPDX-License-Identifier: Apache-2.0
//
// Every layer of somebody's run of a graph against the oracle. Two questions per result: how far is the layer's own work
// off (the oracle computes the layer from the same operands), and how far is the value off by now (the oracle ran
// everything)? The first finds the broken layer, the second tells what the user gets.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "reference/compare.h"

namespace lathe {

struct LayerDifference {
  NodeId node = kNoNode;
  ValueId value = kNoValue;
  Comparison accumulated;
  std::optional<Comparison> local;  // when all operands of the layer were given
  double limit = 0;                 // tolerance of the layer's own work
  bool bad() const { return local ? !local->within(limit) : accumulated.nan_mismatches > 0; }
};

// `actual` gives the other side's tensor of a value, or none where it has none (fused away, view). `error_factor`: what
// the layer's tactic declares. Results in execution order.
std::vector<LayerDifference> diff_layers(const Graph& graph, std::span<const Tensor> inputs,
                                         const std::function<std::optional<Tensor>(ValueId)>& actual,
                                         const std::function<double(NodeId)>& error_factor = nullptr,
                                         ThreadPool* pool = nullptr);

// The first layer whose own work is out of tolerance.
const LayerDifference* first_bad(std::span<const LayerDifference> differences);

}  // namespace lathe
