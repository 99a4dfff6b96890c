// SPDX-License-Identifier: Apache-2.0
//
// The tuner: which tactic, types and formats each layer gets. Layers are timed (through the timing cache),
// reformats are timed, and both are minimised together over the whole graph. The result is a typed graph with
// Reformat nodes, ready for the memory plan.
#pragma once

#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/observer.h"
#include "ir/layer_types.h"
#include "tune/timing_cache.h"
#include "tune/tuning_record.h"

namespace lathe {

struct TuneOptions {
  int level = 3;               // 0: nothing is timed, the cache is not consulted
  int max_tactics = -1;        // tactics per layer that are timed; -1: the level's default
  int avg_timing = 8;          // repetitions per tactic
  double budget_seconds = -1;  // then the rest is estimated; -1: the level's default
  bool winograd =
      true;  // tactics with error_factor > 1 (Winograd, Strassen) may be chosen, within the error budget
  bool keep_nan = false;  // only tactics that keep NaN
  bool error_on_cache_miss = false;
  int64_t workspace_limit_bytes = -1;  // of one layer's scratch at the largest shapes; -1: none
  std::set<std::string, std::less<>> disabled_runners;
  LayerTypes layer_types;  // that a caller demands
  bool in_body = false;  // the graph is a body (tune_bodies.h)
  std::stop_token stop;  // asks the tuner to throw Interrupted
};

struct TunedGraph {
  Graph graph;                  // typed, with formats and Reformat nodes; compact
  std::vector<Choice> choices;  // in graph order
  double layers_ms = 0;         // sum of what the choices cost
  bool timed = false;
  TuningRecord tried;
};

// `fused`: a copy of the graph in which an optional pass has made one layer of several; each such layer is
// used where it is faster than its parts. Nothing is fused when nothing is timed.
TunedGraph tune_graph(const Graph& graph, const SymbolRanges& ranges, const Backend& backend,
                      const TuneOptions& options, TimingCache& cache, Observer& observer,
                      const Graph* fused = nullptr);

// Target::key and threads as the cache's key.
uint64_t timing_target(const Target& target);

}  // namespace lathe
