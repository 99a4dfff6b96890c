// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily gemm_family();
namespace {

LayerCase product(const Op& op, const Extents& a, const Extents& b, bool constant) {
  LayerCase layer{.op = op, .inputs = {{.extents = a}, {.extents = b, .constant = constant}}};
  layer.allowed_types = {DType::Float16, DType::BFloat16};
  layer.tolerance = 1e-5;
  layer.rounding = 1.1;
  layer.emulated = 2;
  return layer;
}

TEST(CudaGemm, Products) {
  std::vector<LayerCase> cases;
  for (const bool constant : {true, false}) {
    cases.push_back(product(MatMul{}, {2, 35, 72}, {72, 40}, constant));
    cases.push_back(product(MatMul{.transpose_b = true}, {70, 72}, {40, 72}, constant));
    cases.push_back(product(MatMul{}, {5, 21}, {21, 13}, constant));
  }
  cases.push_back(product(MatMul{}, {2, 3, 20, 16}, {2, 3, 16, 24}, false));
  cases.push_back(product(MatMul{.transpose_b = true}, {2, 1, 20, 16}, {3, 24, 16}, false));
  cases[0].dynamic_batch = true;
  cases[0].epilogue = PointwiseProgram::parse("Add(0,1) GeluErf(3) Add(4,2)", 3);
  cases[0].operands = {{.extents = {40}, .constant = true}, {.extents = {2, 35, 40}}};
  EXPECT_GE(check_generated(gemm_family(), cases), 25);
}

TEST(CudaGemm, Convolutions) {
  const auto conv = [](const Extents& x, int64_t m, const Ints& kernel, const Ints& strides, int64_t groups) {
    Ints pads;
    for (const int64_t k : kernel) pads.push_back(k / 2);
    Extents w = {m, x[1] / groups};
    w.insert(w.end(), kernel.begin(), kernel.end());
    return product(
        Conv{.kernel = kernel, .strides = strides, .pads_begin = pads, .pads_end = pads, .groups = groups}, x,
        w, true);
  };
  std::vector<LayerCase> cases = {
      conv({2, 32, 7, 9}, 40, {3, 3}, {1, 1}, 1), conv({1, 3, 15, 15}, 24, {7, 7}, {2, 2}, 1),
      conv({2, 16, 6, 6}, 32, {1, 1}, {2, 2}, 1), conv({1, 32, 6, 6}, 48, {3, 3}, {1, 1}, 4),
      conv({2, 16, 20}, 16, {5}, {1}, 1),         conv({1, 8, 4, 5, 6}, 8, {3, 1, 3}, {1, 1, 2}, 1)};
  cases[0].inputs.push_back({.extents = {40}, .constant = true});
  cases[0].epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2);
  cases[0].operands = {{.extents = {2, 40, 7, 9}}};
  cases[0].dynamic_batch = true;
  EXPECT_GE(check_generated(gemm_family(), cases), 25);
}

TEST(CudaGemm, TransposedConvolutions) {
  std::vector<LayerCase> cases;
  for (const int64_t groups : {1, 2}) {
    cases.push_back(product(ConvTranspose{.kernel = {3, 2},
                                          .strides = {2, 2},
                                          .pads_begin = {1, 0},
                                          .pads_end = {1, 0},
                                          .output_padding = {1, 0},
                                          .groups = groups},
                            {2, 16, 5, 6}, {16, 24 / groups, 3, 2}, true));
    cases.push_back(
        product(ConvTranspose{.kernel = {3, 3}, .strides = {1, 3}, .dilations = {2, 1}, .groups = groups},
                {1, 6, 4, 4}, {6, 4, 3, 3}, true));
  }
  EXPECT_GE(check_generated(gemm_family(), cases), 12);
}

TEST(CudaGemm, RefusesWhatItCannotRead) {
  const auto reasons =
      generated_refusals(gemm_family(), product(MatMul{.transpose_a = true}, {8, 4}, {8, 4}, false));
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("left operand is transposed"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cuda
