// SPDX-License-Identifier: Apache-2.0
#include "tune/fallback.h"

#include <algorithm>

#include "backend/reference_layer.h"

namespace lathe {

bool is_fallback(const Tactic& tactic) {
  return tactic.runner == kReferenceRunner;
}

bool never_runs(const Graph& graph, const Node& layer) {
  return std::all_of(layer.outputs.begin(), layer.outputs.end(), [&](ValueId id) {
    if (id == kNoValue) return true;
    const Shape& shape = graph.value(id).shape;
    return std::any_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_constant(0); });
  });
}

std::string fallback_reason(const Backend& backend, const LayerQuery& query,
                            const std::set<std::string, std::less<>>& disabled_runners) {
  std::string reasons;
  std::set<std::string> said;  // a runner's first reason speaks for all of its variants
  for (const Tactic& tactic : backend.tactics(query)) {
    if (is_fallback(tactic) || !said.insert(tactic.runner).second) continue;
    std::string reason = tactic.support.reason;
    if (disabled_runners.contains(tactic.runner)) reason = "switched off by tactic sources";
    if (reason.empty()) reason = "refused by the options of the build";
    reasons += (reasons.empty() ? "" : "; ") + tactic.runner + ": " + reason;
  }
  if (!reasons.empty()) return reasons;
  return "no kernel for " + std::string(op_display_name(query.layer().op)) + " on this device";
}

}  // namespace lathe
