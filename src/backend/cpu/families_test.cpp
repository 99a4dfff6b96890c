// SPDX-License-Identifier: Apache-2.0
//
// Which operators have a kernel on the CPU, and which only the reference runs: a list that must say every
// operator once.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backend/check/layer_case.h"
#include "backend/check/tree_case.h"
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

CheckedInput floats(Extents extents) {
  return {.extents = std::move(extents)};
}
CheckedInput weights(Extents extents) {
  return {.extents = std::move(extents), .constant = true};
}
CheckedInput integers(Extents extents) {
  return {.dtype = DType::Int64, .extents = std::move(extents), .low = 0, .high = 1.9};
}
CheckedInput number(double value) {
  return {.dtype = DType::Int64, .extents = {1}, .constant = true, .low = value, .high = value + 0.5};
}

CheckedInput pair(double value) {
  return {.dtype = DType::Int64, .extents = {2}, .constant = true, .low = value, .high = value + 0.5};
}

std::vector<LayerCase> cases() {
  const Ints ones = {1, 1}, zeros = {0, 0};
  const Conv conv{
      .kernel = {1, 1}, .strides = ones, .dilations = ones, .pads_begin = zeros, .pads_end = zeros};
  const ConvTranspose up{.kernel = {2, 2},
                         .strides = {2, 2},
                         .dilations = ones,
                         .pads_begin = zeros,
                         .pads_end = zeros,
                         .output_padding = zeros};
  const Pool pool{
      .kernel = {2, 2}, .strides = {2, 2}, .dilations = ones, .pads_begin = zeros, .pads_end = zeros};
  const DeformConv deform{
      .kernel = {1, 1}, .strides = ones, .dilations = ones, .pads_begin = zeros, .pads_end = zeros};
  const Col2Im blocks{.strides = ones, .dilations = ones, .pads_begin = zeros, .pads_end = zeros};
  const CheckedInput image = floats({1, 8, 4, 4}), matrix = floats({4, 6}), heads = floats({1, 2, 8, 16});
  const CheckedInput scale{.extents = {}, .constant = true, .low = 0.5, .high = 1};
  const CheckedInput first_images{.dtype = DType::Int64, .extents = {3}, .low = 0, .high = 0.9};
  const CheckedInput bytes{.dtype = DType::UInt8, .extents = {4, 6}, .low = 0, .high = 9};
  const auto recurrent = [](Op op, int64_t gates) {
    return LayerCase{.op = std::move(op),
                     .inputs = {floats({2, 1, 5}), weights({gates * 8, 5}), weights({gates * 8, 8})},
                     .outputs = gates == 4 ? size_t{3} : size_t{2}};
  };
  return {
      {.op = Pointwise{PointwiseCode::Add}, .inputs = {matrix, matrix}},
      {.op = Pointwise{PointwiseCode::Mod}, .inputs = {integers({4}), number(3)}},
      {.op = PointwiseChain{PointwiseProgram::parse("Add(0,1) Relu(2)", 2)}, .inputs = {matrix, matrix}},
      {.op = Cast{DType::Int32}, .inputs = {integers({4})}},
      {.op = Cast{DType::Float16}, .inputs = {matrix}},
      {.op = conv, .inputs = {image, weights({8, 8, 1, 1})}},
      {.op = up, .inputs = {image, weights({8, 8, 2, 2})}},
      {.op = MatMul{}, .inputs = {floats({4, 6}), weights({6, 8})}},
      {.op = Attention{}, .inputs = {heads, heads, heads}},
      {.op = Rotary{}, .inputs = {floats({8, 16}), floats({8, 16}), heads, heads}, .outputs = 2},
      {.op = pool, .inputs = {image}},
      {.op = Reduce{.axes = Ints{1}}, .inputs = {matrix}},
      {.op = Reduce{.kind = ReduceKind::LogSumExp, .axes = Ints{1}}, .inputs = {matrix}},
      {.op = Reduce{.kind = ReduceKind::Prod, .axes = Ints{0}}, .inputs = {integers({4, 6})}},
      {.op = ArgReduce{}, .inputs = {matrix}},
      {.op = Softmax{.axis = 0}, .inputs = {matrix}},
      {.op = LayerNorm{}, .inputs = {matrix, weights({6}), weights({6})}},
      {.op = GroupNorm{}, .inputs = {image, weights({8}), weights({8})}},
      {.op = CumSum{}, .inputs = {matrix, number(1)}},
      {.op = CumProd{}, .inputs = {matrix, number(1)}},
      {.op = ReshapeOp{.shape = to_shape(Extents{6, 4})}, .inputs = {matrix}},
      {.op = Transpose{{1, 0}}, .inputs = {matrix}},
      {.op = Concat{0}, .inputs = {matrix, matrix}},
      {.op = Split{1, {Dim(2), Dim(4)}}, .inputs = {matrix}, .outputs = 2},
      {.op = Slice{.starts = to_shape(Extents{1}), .ends = to_shape(Extents{4}), .axes = {1}, .steps = {2}},
       .inputs = {matrix}},
      {.op = Expand{to_shape(Extents{3, 4, 6})}, .inputs = {matrix}},
      {.op = Tile{to_shape(Extents{2, 3})}, .inputs = {matrix}},
      {.op = Pad{.mode = PadMode::Reflect, .pads = to_shape(Extents{1, 1, 1, 1})}, .inputs = {matrix}},
      {.op = Resize{.scales = {1, 1, 2, 2}}, .inputs = {image}},
      {.op = Resize{.mode = ResizeMode::Linear, .scales = {1, 1, 2, 2}}, .inputs = {image}},
      {.op = Resize{.mode = ResizeMode::Cubic, .scales = {1, 1, 2, 2}}, .inputs = {image}},
      {.op = Gather{}, .inputs = {matrix, integers({3})}},
      {.op = GatherElements{}, .inputs = {matrix, integers({3, 6})}},
      {.op = GatherND{}, .inputs = {matrix, integers({3, 1})}},
      {.op = ScatterElements{}, .inputs = {matrix, integers({3, 6}), floats({3, 6})}},
      {.op = ScatterND{ScatterReduction::Add}, .inputs = {matrix, integers({3, 1}), floats({3, 6})}},
      {.op = Trilu{}, .inputs = {matrix}},
      {.op = ReverseSequence{}, .inputs = {matrix, integers({6})}},
      {.op = OneHot{}, .inputs = {integers({4}), number(3), weights({2})}},
      {.op = DepthToSpace{}, .inputs = {image}},
      {.op = ShapeTensor{.dims = to_shape(Extents{3, 4})}},
      {.op = ShapeOf{}, .inputs = {matrix}},
      {.op = Fill{.shape = to_shape(Extents{3})}},
      {.op = Range{}, .inputs = {number(2), number(9), number(3)}},
      {.op = RandomUniform{.shape = to_shape(Extents{3})}},
      {.op = RandomNormal{.shape = to_shape(Extents{3})}},
      {.op = TopK{}, .inputs = {matrix, number(2)}, .outputs = 2},
      {.op = NonZero{}, .inputs = {matrix}},
      tree_case({.rows = 4}),
      {.op = DetectionNms{}, .inputs = {floats({1, 9, 4}), floats({1, 9, 2})}, .outputs = 4},
      {.op = Unique{}, .inputs = {matrix}, .outputs = 4},
      {.op = Det{}, .inputs = {floats({3, 4, 4})}},
      {.op = Inverse{}, .inputs = {floats({3, 4, 4})}},
      {.op = TfIdfVectorizer{.ngram_counts = {0}, .ngram_indexes = {0, 1}, .pool = {0, 1}},
       .inputs = {integers({4, 6})}},
      {.op = BitCast{DType::Int32}, .inputs = {matrix}},
      {.op = Lrn{}, .inputs = {image}},
      {.op = RoiAlign{}, .inputs = {image, floats({3, 4}), first_images}},
      {.op = RoiAlign{.max = true}, .inputs = {image, floats({3, 4}), first_images}},
      {.op = MaxRoiPool{}, .inputs = {image, {.extents = {3, 5}, .low = 0, .high = 0.9}}},
      {.op = GridSample{}, .inputs = {image, floats({1, 3, 3, 2})}},
      {.op = deform, .inputs = {image, weights({8, 8, 1, 1}), floats({1, 2, 4, 4})}},
      {.op = blocks, .inputs = {floats({1, 8, 9}), pair(4), pair(2)}},
      {.op = up, .inputs = {image, floats({8, 8, 2, 2})}},
      {.op = LinearAttention{.rule = LinearAttentionRule::Linear, .q_heads = 2, .kv_heads = 2},
       .inputs = {floats({1, 3, 8}), floats({1, 3, 8}), floats({1, 3, 8})},
       .outputs = 2},
      {.op = DFT{}, .inputs = {floats({1, 8, 1})}},
      {.op = STFT{}, .inputs = {floats({1, 30, 1}), number(2), weights({8})}},
      {.op = NonMaxSuppression{}, .inputs = {floats({1, 9, 4}), floats({1, 2, 9}), number(3)}},
      {.op = QuantizeLinear{}, .inputs = {matrix, scale}},
      {.op = DequantizeLinear{}, .inputs = {bytes, scale}},
      recurrent(RNN{}, 1),
      recurrent(GRU{}, 3),
      recurrent(LSTM{}, 4),
  };
}

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
  for (const LayerCase& layer : cases()) {
    const LayerProblem problem = make_problem(layer);
    EXPECT_EQ(in_the_way(problem.query(), machine), "") << op_display_name(layer.op);
    EXPECT_FALSE(kOnlyReference.contains(op_name(layer.op))) << op_name(layer.op) << " has a kernel";
    seen.insert(op_name(layer.op));
  }
  for (const OpDef& def : all_op_defs())
    EXPECT_TRUE(seen.contains(def.name)) << def.name << " is neither tried nor listed";
}

}  // namespace
}  // namespace lathe::cpu
