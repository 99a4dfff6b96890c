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
#include "backend/packing.h"
#include "base/error.h"
#include "ir/edit.h"
#include "ops/build.h"
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

// A run finds how long the sums are. What stands for that until then, an upper bound, is not what the weights
// have.
void pack_weights_for_open_sums(const Op& op, const Shape& x, const Extents& weights) {
  Graph graph;
  GraphEditor editor(graph);
  const Tensor constant = Tensor::allocate(DType::Float32, weights);
  const ValueId y =
      append_node(editor, "layer", op,
                  {editor.add_input("x", DType::Float32, x), editor.add_constant("w", constant)}, {})[0];
  const SymbolRanges ranges;
  const LayerQuery query{graph, graph.value(y).producer, ranges};
  const Machine machine = make_machine(read_cpu_info(), std::nullopt, 2);
  int made = 0;
  for (const TacticFamily& family : tactic_families())
    for (const Tactic& tactic : family.list(query, machine)) {
      if (!tactic.support.ok) continue;
      MemoryBlobStore blobs;
      family.make(query, tactic, machine, PackContext{blobs, "layer"});
      ++made;
    }
  EXPECT_GT(made, 0) << op_name(op);
}

TEST(CpuFamilies, PackNoMoreThanTheWeightsHave) {
  const Dim open = Dim::data_dependent("found", int64_t{1} << 22);
  pack_weights_for_open_sums(MatMul{}, {open}, {36, 512});
  pack_weights_for_open_sums(MatMul{}, {7, open}, {36, 512});
  pack_weights_for_open_sums(MatMul{.transpose_b = true}, {64, open}, {96, 48});
  pack_weights_for_open_sums(MatMul{}, {16, open}, {3, 32, 64});
  pack_weights_for_open_sums(Conv{.kernel = {3, 3}}, {1, open, 6, 6}, {16, 32, 3, 3});
  pack_weights_for_open_sums(Conv{.kernel = {1, 1}}, {1, open, 6, 6}, {64, 32, 1, 1});
  pack_weights_for_open_sums(Conv{.kernel = {3, 3}, .groups = 32}, {1, open, 6, 6}, {32, 1, 3, 3});
  pack_weights_for_open_sums(ConvTranspose{.kernel = {2, 2}, .strides = {2, 2}}, {1, open, 6, 6},
                             {16, 8, 2, 2});
}

}  // namespace
}  // namespace lathe::cpu
