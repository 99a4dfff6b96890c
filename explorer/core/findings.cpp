// SPDX-License-Identifier: Apache-2.0
//
// Runs every rule, the user's too, and ranks what they found: by what it can win, then by severity. Rules
// live in rules_*.cpp, one function each, and are listed in findings.h.
#include "explorer/core/findings.h"

#include <algorithm>

#include "explorer/core/analyse.h"

namespace lathe::explorer {
namespace {

int severity_rank(const std::string& severity) {
  return severity == "high" ? 3 : severity == "medium" ? 2 : severity == "low" ? 1 : 0;
}

// High when it wins 5 % of the time, medium from 1 %.
void grade(Finding& finding, double total_ms) {
  if (!finding.gain_ms || total_ms <= 0) return;
  const double share = *finding.gain_ms / total_ms;
  finding.severity = share >= 0.05 ? "high" : share >= 0.01 ? "medium" : "low";
}

// The order still says what is worth looking at; milliseconds of a disturbed measurement would say more than
// is known.
void withdraw_gains(std::vector<Finding>& findings) {
  for (auto& finding : findings) {
    if (finding.gain_ms) finding.gain_basis = "not estimated: the times are not usable";
    finding.gain_ms.reset();
  }
}

}  // namespace

void find_problems(EngineData& engine, const std::vector<UserRule>& rules) {
  std::vector<Finding> findings = apply_rules(engine, rules);
  for (const auto& rule : finding_rules()) {
    for (auto& finding : rule(engine)) findings.push_back(std::move(finding));
  }
  for (auto& finding : findings) {
    if (finding.severity.empty()) finding.severity = "low";
    grade(finding, engine.statistics.layer_sum_ms.value_or(0));
  }
  engine.findings = std::move(findings);
  std::stable_sort(engine.findings.begin(), engine.findings.end(), [](const Finding& a, const Finding& b) {
    if (severity_rank(a.severity) != severity_rank(b.severity))
      return severity_rank(a.severity) > severity_rank(b.severity);
    return a.gain_ms.value_or(0) > b.gain_ms.value_or(0);
  });
  if (!engine.measurement.usable) withdraw_gains(engine.findings);
}

}  // namespace lathe::explorer
