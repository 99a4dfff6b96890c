// SPDX-License-Identifier: Apache-2.0
//
// Two engines side by side: which layers of one do the work of which layers of the other, what that changed,
// and whether the change is real. Layers belong together when they implement the same ONNX nodes; the rows
// are the smallest groups of layers on both sides for which that is true, so a fused layer stands beside the
// layers that it replaces.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "explorer/core/model.h"

namespace lathe::explorer {

struct MatchedRow {
  std::string match = "none", label;  // "origins", "name", "tensors", "signature", "none"
  std::vector<std::string> origins;
  std::vector<int> baseline_layers, candidate_layers;
  std::optional<double> baseline_ms, candidate_ms, delta_ms;
  std::string status = "untimed", fusion = "same";
  std::string baseline_precision, candidate_precision;
  bool precision_changed = false, tactic_changed = false;
};

struct WaterfallItem {
  std::string label;
  double delta_ms = 0;
  std::vector<int> rows;
};

struct FusionChange {
  int row = 0;
  std::vector<std::string> nodes;
  std::vector<int> layers;  // of the side that holds the nodes in more layers
  std::string text;
};

struct LatencyChange {
  std::string metric = "compute_ms";
  double baseline_ms = 0, candidate_ms = 0, change_percent = 0;
  std::optional<double> low_percent, high_percent;
  std::array<size_t, 2> samples{};
  bool significant = false;
  std::string method;
};

struct EnginePair {
  int baseline = 0, candidate = 1;
  std::vector<MatchedRow> rows;
  std::optional<double> baseline_sum_ms, candidate_sum_ms, delta_ms;
  std::vector<WaterfallItem> waterfall, waterfall_by_type;
  std::optional<LatencyChange> latency;
  std::vector<FusionChange> fusions_lost, fusions_new;
  std::vector<int> precision_changes, tactic_changes;
  double noise_percent = 3;
  std::vector<Note> notes;
};

struct FailCheck {
  std::string expression, text;
  bool failed = false;
  int pair = 0;
};

struct Comparison {
  std::vector<EnginePair> pairs;
  std::vector<FailCheck> checks;
  bool failed = false;
};

struct Analysis {
  std::vector<EngineData> engines;
  std::optional<Comparison> comparison;
};

// The first engine is the baseline of all others.
Comparison compare_engines(const std::vector<EngineData>& engines);

// --- the steps
std::vector<MatchedRow> align_layers(const EngineData& baseline, const EngineData& candidate);
EnginePair compare_pair(const std::vector<EngineData>& engines, int baseline, int candidate);
void add_waterfalls(EnginePair& pair, const EngineData& baseline, const EngineData& candidate);
// 95 % interval of candidate/baseline - 1 for the medians, by a moving-block bootstrap with a fixed seed.
LatencyChange compare_times(const std::vector<double>& baseline, const std::vector<double>& candidate);

// "latency>3% or fusion lost": conditions with `or` and `and` (which binds tighter). Fills checks and failed.
// Throws Input for what it does not understand, with the list of what it does.
void apply_fail_if(Comparison& comparison, const std::vector<EngineData>& engines,
                   const std::string& expression);
// Throws what apply_fail_if() would for an expression that it does not understand: before engines run for
// minutes.
void check_fail_if(const std::string& expression);

}  // namespace lathe::explorer
