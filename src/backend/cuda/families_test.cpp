// SPDX-License-Identifier: Apache-2.0
//
// Which operators have a kernel on a GPU, and which only the reference on the host runs: a list that must say
// every operator once. docs/cuda.md has the same list for readers.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backend/check/operator_cases.h"
#include "backend/cuda/device/libraries.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/run/cuda_backend.h"
#include "base/file.h"
#include "ops/op_def.h"

namespace lathe::cuda {
namespace {

// What has no kernel, and why. A new kernel takes its operator off this list.
const std::map<std::string_view, std::string_view> kOnlyReference = {};
// Fused layers and format changes: their families' tests make them. The CPU's are not made for a GPU.
const std::set<std::string_view> kMadeByPasses = {
    "Reformat", "DepthwiseBlock", "FeedForward", "SqueezeExcite", "BatchNorm",
    "Plugin",                               // whose library has the kernel
    "If",       "Loop",           "Scan"};  // control_flow_test.cpp

// The reasons of those who refused; empty when somebody has a kernel.
std::string in_the_way(const LayerQuery& query, const Device& device) {
  std::string reasons = "no family knows it";
  for (const TacticFamily& family : tactic_families())
    for (const Tactic& tactic : family.list(query, device)) {
      if (tactic.support.ok && !tactic.last_resort) return "";
      if (!tactic.support.ok) reasons += "; " + tactic.name + ": " + tactic.support.reason;
    }
  return reasons;
}

TEST(CudaFamilies, EveryOperatorHasAKernelOrIsListed) {
  const std::string path = "tests/gpu/h200.json";
  const auto device = describe_device(DeviceProperties::from_json(read_file(path), path));
  std::set<std::string_view> seen = kMadeByPasses;
  for (const LayerCase& layer : operator_cases()) {
    const LayerProblem problem = make_problem(layer);
    const std::string reasons = in_the_way(problem.query(), *device);
    if (kOnlyReference.contains(op_name(layer.op)))
      EXPECT_NE(reasons, "") << op_name(layer.op) << " has a kernel";
    else
      EXPECT_EQ(reasons, "") << op_display_name(layer.op);
    seen.insert(op_name(layer.op));
  }
  for (const auto& [name, reason] : kOnlyReference) seen.insert(name);
  for (const OpDef& def : all_op_defs())
    EXPECT_TRUE(seen.contains(def.name)) << def.name << " is neither tried nor listed";
}

// Generated kernels of operators that index and select compile for the oldest architecture and the newest.
TEST(CudaFamilies, KernelsOfIndicesCompileForOldAndNewGpus) {
  const std::set<std::string_view> runners = {
      "Scatter", "GatherND", "OneHot",  "ReverseSequence",   "Scan",         "Fill",   "BitCast",
      "Lrn",     "TopK",     "NonZero", "NonMaxSuppression", "DetectionNms", "Unique", "Transform",
      "TfIdf",   "Mel"};
  for (const char* path : {"tests/devices/sm_80_a100.json", "tests/devices/sm_120_rtx5090.json"}) {
    const auto device = describe_device(DeviceProperties::from_json(read_file(path), path));
    if (device->libraries->nvrtc == nullptr) GTEST_SKIP() << "NVRTC is not there";
    std::set<std::string_view> compiled;
    for (const LayerCase& layer : operator_cases()) {
      const LayerProblem problem = make_problem(layer);
      for (const TacticFamily& family : tactic_families()) {
        if (!runners.contains(family.runner)) continue;
        for (const Tactic& tactic : family.list(problem.query(), *device)) {
          if (!tactic.support.ok || !compiled.insert(family.runner).second) continue;
          for (const KernelSource& kernel : family.sources(problem.query(), tactic, *device))
            EXPECT_NO_THROW(compile_source(*device, kernel.entry, kernel.source)) << tactic.name;
        }
      }
    }
    EXPECT_EQ(compiled, runners) << path;
  }
}

}  // namespace
}  // namespace lathe::cuda
