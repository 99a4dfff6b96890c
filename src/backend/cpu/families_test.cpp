// SPDX-License-Identifier: Apache-2.0
//
// Which operators have a kernel on the CPU, and which only the reference runs: a list that must say every
// operator once.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backend/check/operator_cases.h"
#include "backend/cpu/device/machine.h"
#include "backend/cpu/kernel.h"
#include "ops/op_def.h"

namespace lathe::cpu {
namespace {

// What has no kernel, and why. A new kernel takes its operator off this list.
const std::set<std::string_view> kOnlyReference = {
    // Folded where its inputs are constants, as in every model that is known. Where a run brings the sample
    // rate or an edge, 80 bins of 257 rows take 20 us on the reference (ONNX Runtime: 8), once beside a
    // transform of every frame.
    "MelWeightMatrix",
};
// Fused layers and format changes: their families' tests make them.
const std::set<std::string_view> kMadeByPasses = {
    "Reformat", "DepthwiseBlock", "FeedForward", "SqueezeExcite", "BatchNorm",
    "Plugin",                               // whose library has the kernel
    "If",       "Loop",           "Scan"};  // control_flow_test.cpp

// The reasons of those who refused; empty when somebody has a kernel.
std::string in_the_way(const LayerQuery& query, const Machine& machine) {
  std::string reasons = "no family knows it";
  for (const TacticFamily& family : tactic_families())
    for (const Tactic& tactic : family.list(query, machine)) {
      if (tactic.support.ok && !tactic.last_resort) return "";
      if (!tactic.support.ok) reasons += "; " + tactic.name + ": " + tactic.support.reason;
    }
  return reasons;
}

TEST(CpuFamilies, EveryOperatorHasAKernelOrIsListed) {
  const Machine machine = make_machine(read_cpu_info(), Isa::Avx2, 2);
  std::set<std::string_view> seen = kMadeByPasses;
  seen.insert(kOnlyReference.begin(), kOnlyReference.end());
  for (const LayerCase& layer : operator_cases()) {
    const LayerProblem problem = make_problem(layer);
    const std::string reasons = in_the_way(problem.query(), machine);
    if (kOnlyReference.contains(op_name(layer.op)))
      EXPECT_NE(reasons, "") << op_name(layer.op) << " has a kernel";
    else
      EXPECT_EQ(reasons, "") << op_display_name(layer.op);
    seen.insert(op_name(layer.op));
  }
  for (const OpDef& def : all_op_defs())
    EXPECT_TRUE(seen.contains(def.name)) << def.name << " is neither tried nor listed";
}

}  // namespace
}  // namespace lathe::cpu
