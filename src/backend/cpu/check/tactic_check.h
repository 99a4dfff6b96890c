// SPDX-License-Identifier: Apache-2.0
//
// For tests: runs tactics of a layer on seeded random data and compares with the operator's own evaluation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/kernel.h"
#include "ir/graph.h"

namespace lathe::cpu {

struct TacticCheck {
  std::string_view runner;  // only this family; empty: all
  SymbolRanges ranges;      // the check runs at `opt`, after preparing for `min` and `max` too
  int threads = 2;
  std::string isa_cap;      // as --cpuIsa; one per process
  double tolerance = 1e-5;  // relative L2 error allowed for FP32, times the tactic's error factor
  double bf16_tolerance = 1.5e-2;
  bool with_nan = false;  // an input element is NaN; only tactics that say that they keep it run
};

struct TacticCheckResult {
  std::vector<std::string> ran;       // "name input types -> output types" of each tactic that ran
  std::vector<std::string> refused;   // "name: reason"
  std::vector<std::string> left_out;  // with_nan: those that do not keep it
  std::vector<std::string> failures;  // what differs, with the tactic's name
};

// Checks the layer `node` of `graph` with every supported tactic. Inputs that are not constants get random
// data; integer inputs get small non-negative numbers.
TacticCheckResult check_tactics(const Graph& graph, NodeId node, const TacticCheck& check = {});

// The same with one to three threads (`check.threads` is not used): failures, and runs in which no tactic
// ran, are test failures. What ran and was refused in all of them.
TacticCheckResult expect_right(const Graph& graph, NodeId node, TacticCheck check);
// As if the machine kept all members away but the last one, which takes their pieces from the back, and then
// does its own.
void run_alone_in_team(const PreparedLayer& layer, const LayerArgs& args, int members);
// Did a tactic run whose description has this part?
bool ran(const TacticCheckResult& result, std::string_view part);

}  // namespace lathe::cpu
