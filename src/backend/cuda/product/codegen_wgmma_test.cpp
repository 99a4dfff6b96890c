// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"
#include "backend/cuda/product/wgmma_check.h"

namespace lathe::cuda {
namespace {

LayerCase product(const Op& op, const Extents& a, const Extents& b) {
  LayerCase layer{.op = op, .inputs = {{.extents = a}, {.extents = b, .constant = true}}};
  layer.allowed_types = {DType::Float16, DType::BFloat16};
  layer.tolerance = 1e-5;
  layer.rounding = 1.1;
  layer.emulated = 2;
  return layer;
}

TEST(CudaWgmma, Products) {
  std::vector<LayerCase> cases = {
      product(MatMul{}, {2, 35, 72}, {72, 40}), product(MatMul{.transpose_b = true}, {70, 200}, {200, 200}),
      product(MatMul{}, {3, 5, 24}, {24, 13}), product(MatMul{}, {300, 640}, {640, 48})};
  cases[0].dynamic_batch = true;
  cases[0].epilogue = PointwiseProgram::parse("Add(0,1) GeluErf(3) Add(4,2)", 3);
  cases[0].operands = {{.extents = {40}, .constant = true}, {.extents = {2, 35, 40}}};
  // One left operand and a stack of matrices: q, k and v.
  LayerCase stack = product(MatMul{}, {2, 35, 64}, {3, 1, 64, 40});
  stack.epilogue = PointwiseProgram::parse("Add(0,1)", 2);
  stack.operands = {{.extents = {3, 1, 1, 40}, .constant = true}};
  stack.dynamic_batch = true;
  cases.push_back(stack);
  cases[1].inputs[1].extents = {200, 200};
  EXPECT_GE(check_generated(wgmma_family(), cases), 20);
}

constexpr WgmmaVariant kRelays[] = {{.tile = {2, 128}, .relay = true, .blocks = 2},
                                    {.tile = {3, 192}, .relay = true, .blocks = 3},
                                    {.tile = {2, 256}, .relay = true, .blocks = 1}};
constexpr WgmmaVariant kStays[] = {{.tile = {2, 64, 2}, .stays = true, .blocks = 2},
                                   {.tile = {1, 128, 1}, .stays = true, .blocks = 3},
                                   {.tile = {1, 256, 1}, .stays = true, .blocks = 1},
                                   {.tile = {1, 64, 2}, .stays = true, .blocks = 2, .teams = 2},
                                   {.tile = {1, 192, 1}, .stays = true, .blocks = 1, .teams = 2}};
constexpr WgmmaVariant kKeeps[] = {{.tile = {2, 128, 1}, .stays = true, .blocks = 3, .kept = 1}};
constexpr WgmmaVariant kKeepsOfStacks[] = {
    {.tile = {1, 64, 1}, .stays = true, .blocks = 9, .kept = 1},
    {.tile = {1, 64, 1}, .stays = true, .blocks = 9, .teams = 2, .kept = 1}};
constexpr WgmmaVariant kClusters[] = {{.tile = {1, 32}, .splits = 4, .cluster = true},
                                      {.tile = {2, 64}, .splits = 3, .cluster = true}};

// With so many columns: GELU and a residual, weights transposed, a stack, a convolution with a residual.
std::vector<LayerCase> layers_of(int64_t gelu, int64_t transposed, int64_t stacked, int64_t channels) {
  std::vector<LayerCase> cases = {product(MatMul{}, {2, 135, 200}, {200, gelu}),
                                  product(MatMul{.transpose_b = true}, {70, 264}, {transposed, 264})};
  cases[0].dynamic_batch = true;
  cases[0].epilogue = PointwiseProgram::parse("Add(0,1) GeluErf(3) Add(4,2)", 3);
  cases[0].operands = {{.extents = {gelu}, .constant = true}, {.extents = {2, 135, gelu}}};
  LayerCase stack = product(MatMul{}, {2, 70, 320}, {3, 1, 320, stacked});
  stack.epilogue = PointwiseProgram::parse("Add(0,1)", 2);
  stack.operands = {{.extents = {3, 1, 1, stacked}, .constant = true}};
  stack.dynamic_batch = true;
  cases.push_back(stack);
  LayerCase conv =
      product(Conv{.kernel = {1, 1}, .strides = {1, 1}, .pads_begin = {0, 0}, .pads_end = {0, 0}},
              {2, 264, 9, 9}, {channels, 264, 1, 1});
  conv.inputs.push_back({.extents = {channels}, .constant = true});
  conv.epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2);
  conv.operands = {{.extents = {2, channels, 9, 9}}};
  cases.push_back(conv);
  for (LayerCase& layer : cases) layer.emulated = 100;
  return cases;
}

// What a few blocks compute one tile after the other, and what blocks of a cluster add up.
TEST(CudaWgmma, BlocksThatStayAndClusters) {
  std::vector<LayerCase> cases = layers_of(200, 44, 136, 136);
  for (LayerCase& layer : cases) {
    layer.rounding = 3;  // the sums are rounded, too
    if (&layer != &cases[1]) layer.allowed_types = {DType::Float16};
  }
  EXPECT_EQ(check_generated(only<kRelays, 3>(), cases), 5 * 3);
  EXPECT_EQ(check_generated(only<kClusters, 2>(), cases), 5 * 2);
  for (LayerCase& layer : cases) layer.rounding = 1.1;
  EXPECT_EQ(check_generated(only<kStays, 5>(), cases), 5 * 5);
  EXPECT_EQ(check_generated(only<kKeepsOfStacks, 2>(), cases), 5 * 2);
  cases.erase(cases.begin() + 2);  // fewer blocks than the stack has columns of tiles
  EXPECT_EQ(check_generated(only<kKeeps, 1>(), cases), 4);
}

TEST(CudaWgmma, BlocksThatStayDealColumns) {
  EXPECT_GE(check_generated(only<kDealing, 3>(), layers_of(384, 384, 384, 384)), 4 * 3);
}

TEST(CudaWgmma, Convolutions) {
  LayerCase conv =
      product(Conv{.kernel = {1, 1}, .strides = {1, 1}, .pads_begin = {0, 0}, .pads_end = {0, 0}},
              {2, 72, 7, 9}, {40, 72, 1, 1});
  conv.inputs.push_back({.extents = {40}, .constant = true});
  conv.epilogue = PointwiseProgram::parse("Add(0,1) Silu[1,0](2)", 2);
  conv.operands = {{.extents = {2, 40, 7, 9}}};
  conv.dynamic_batch = true;
  EXPECT_GE(check_generated(wgmma_family(), {conv}), 4);
}

TEST(CudaWgmma, PatchesOfAnImage) {
  LayerCase conv =
      product(Conv{.kernel = {4, 8}, .strides = {4, 8}, .pads_begin = {0, 0}, .pads_end = {0, 0}},
              {2, 3, 13, 24}, {40, 3, 4, 8});
  conv.inputs.push_back({.extents = {40}, .constant = true});
  conv.dynamic_batch = true;
  EXPECT_GE(check_generated(wgmma_family(), {conv}), 4);
}

TEST(CudaWgmma, RefusesWhatItCannotRead) {
  const auto reason = [](const LayerCase& layer) {
    const auto reasons = generated_refusals(wgmma_family(), layer);
    return reasons.empty() ? std::string() : reasons[0];
  };
  LayerCase layer = product(MatMul{}, {8, 12}, {12, 8});
  EXPECT_NE(reason(layer).find("multiples of 16 bytes"), std::string::npos);
  layer = product(MatMul{}, {8, 16}, {16, 8});
  layer.inputs[1].constant = false;
  EXPECT_NE(reason(layer).find("computed at run time"), std::string::npos);
  layer = product(Conv{.kernel = {3, 3}, .strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}},
                  {1, 16, 5, 5}, {8, 16, 3, 3});
  EXPECT_NE(reason(layer).find("more than one pixel"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cuda
