// SPDX-License-Identifier: Apache-2.0
//
// Why a layer runs on the reference: its result is right, but it takes one thread and double precision, often
// a hundred times as long as a kernel. The engine keeps the reason, so that logs, JSON and reports can show
// it.
#pragma once

#include <set>
#include <string>

#include "backend/backend.h"

namespace lathe {

// One clause for each runner that refused the layer; "no kernel for CumSum on this device" when none knows
// its operator.
std::string fallback_reason(const Backend& backend, const LayerQuery& query,
                            const std::set<std::string, std::less<>>& disabled_runners);

// Does the choice run the layer on the reference?
bool is_fallback(const Tactic& tactic);
// The layer has no elements to write, whatever the run's shapes are: nothing runs, whoever was chosen.
bool never_runs(const Graph& graph, const Node& layer);

}  // namespace lathe
