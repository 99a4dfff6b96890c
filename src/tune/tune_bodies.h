// SPDX-License-Identifier: Apache-2.0
//
// The bodies of If, Loop and Scan: each is tuned as a graph of its own, before the graph around it. Between
// the nodes of a body no value is a view of another one; what a body takes and gives is linear.
#pragma once

#include <map>

#include "tune/tune.h"

namespace lathe {

struct TunedBodies {
  std::map<NodeId, std::vector<std::vector<Tactic>>> tactics;  // Tactic::bodies of each layer that has bodies
  TuningRecord tried;                                          // by the names of nested_layers()
  double share = 0;                                            // of the time budget that was meant for them
};

// Puts the tuned bodies into `graph`. Does nothing where the backend does not tune bodies.
TunedBodies tune_bodies(Graph& graph, const SymbolRanges& ranges, const Backend& backend,
                        const TuneOptions& options, TimingCache& cache, Observer& observer);

// Why a node of a body cannot run with the tactic; empty: it can.
std::string body_refusal(const LayerQuery& query, const Tactic& tactic);

}  // namespace lathe
