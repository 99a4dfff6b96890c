// SPDX-License-Identifier: Apache-2.0
//
// Products, softmax and attention in float64, and products of integers, as generated kernels.
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily exact_attention_family();
GeneratedFamily exact_product_family();
GeneratedFamily exact_softmax_family();
namespace {

CheckedInput doubles(Extents extents) {
  return {.dtype = DType::Float64, .extents = std::move(extents)};
}

TEST(CudaExactProduct, ShapesOfDoubles) {
  std::vector<LayerCase> cases;
  const std::vector<std::pair<Extents, Extents>> shapes = {
      {{3, 4}, {4, 5}},          {{40, 37}, {37, 70}},        {{7}, {7}}, {{7}, {2, 7, 3}}, {{2, 5, 7}, {7}},
      {{2, 1, 5, 6}, {3, 6, 4}}, {{1, 3, 2, 4}, {5, 1, 4, 3}}};
  for (const auto& [a, b] : shapes)
    cases.push_back({.op = MatMul{}, .inputs = {doubles(a), doubles(b)}, .tolerance = 1e-14});
  for (const bool left : {false, true})
    cases.push_back({.op = MatMul{.transpose_a = left, .transpose_b = !left},
                     .inputs = {doubles({3, 5, 5}), doubles({3, 5, 5})},
                     .epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2),
                     .operands = {doubles({5})},
                     .tolerance = 1e-14,
                     .dynamic_batch = true});
  EXPECT_EQ(check_generated(exact_product_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaExactProduct, IntegersWrap) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Int32, DType::UInt32, DType::Int64, DType::UInt64, DType::Int8})
    cases.push_back({.op = MatMul{},
                     .inputs = {{.dtype = type, .extents = {3, 20}, .low = 0, .high = 120},
                                {.dtype = type, .extents = {20, 4}, .low = 0, .high = 120}}});
  const auto large = [](Extents extents) {
    return CheckedInput{.dtype = DType::Int32, .extents = std::move(extents), .low = -2e9, .high = 2e9};
  };
  cases.push_back({.op = MatMul{}, .inputs = {large({2, 9}), large({9, 3})}});
  EXPECT_EQ(check_generated(exact_product_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaExactProduct, LeavesFloatsToOthers) {
  EXPECT_EQ(check_generated(exact_product_family(),
                            {{.op = MatMul{}, .inputs = {{.extents = {3, 4}}, {.extents = {4, 5}}}}}),
            0);
}

TEST(CudaExactSoftmax, AxesAndLogarithms) {
  std::vector<LayerCase> cases;
  for (const bool log : {false, true})
    for (const int64_t axis : {0, 1, -1})
      cases.push_back(
          {.op = Softmax{.axis = axis, .log = log}, .inputs = {doubles({3, 40, 5})}, .tolerance = 1e-14});
  cases.push_back({.op = Softmax{.axis = 1}, .inputs = {doubles({3, 70})}, .tolerance = 1e-14});
  EXPECT_EQ(check_generated(exact_softmax_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaExactAttention, MasksLayoutsAndSharedHeads) {
  std::vector<LayerCase> cases;
  const auto add = [&](Attention op, std::vector<CheckedInput> inputs) {
    cases.push_back({.op = op, .inputs = std::move(inputs), .tolerance = 1e-13});
  };
  add({.scale = 0.5f}, {doubles({2, 4, 5, 8}), doubles({2, 2, 40, 8}), doubles({2, 2, 40, 36})});
  add({.scale = 0.3f, .causal = true}, {doubles({1, 2, 9, 3}), doubles({1, 2, 9, 3}), doubles({1, 2, 9, 3})});
  add({.layout = AttentionLayout::BSHD},
      {doubles({2, 5, 3, 8}), doubles({2, 6, 3, 8}), doubles({2, 6, 3, 4}), doubles({3, 5, 6})});
  add({}, {doubles({1, 2, 3, 4}),
           doubles({1, 2, 7, 4}),
           doubles({1, 2, 7, 4}),
           {.dtype = DType::Bool, .extents = {3, 7}, .low = 0, .high = 2}});
  EXPECT_EQ(check_generated(exact_attention_family(), cases), static_cast<int>(cases.size()));
}

}  // namespace
}  // namespace lathe::cuda
