// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/check/layer_check.h"
#include "backend/cpu/vector/reduce_table.h"
#include "base/floats.h"

namespace lathe::cpu {
TacticFamily reduce_tactics();
TacticFamily pool_tactics();
namespace {

TEST(ReduceTactics, KindsAndAxes) {
  for (const auto kind : {ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min, ReduceKind::L1,
                          ReduceKind::L2, ReduceKind::SumSquare})
    for (const Ints& axes : std::vector<Ints>{
             {3}, {2, 3}, {1}, {1, 2}, {0}, {0, 1, 2, 3}, {-1, -2}, {0, 3}, {0, 2, 3}, {0, 1, 3}})
      for (const bool keepdims : {true, false}) {
        SCOPED_TRACE(std::string(enum_name(kind)) + " " + to_string(axes));
        LayerCase layer{.op = Reduce{.kind = kind, .axes = axes, .keepdims = keepdims},
                        .inputs = {{.extents = {2, 35, 6, 7}}},
                        .allowed_types = {DType::BFloat16}};
        layer.tolerance = 1e-5;
        EXPECT_GE(check_layer(reduce_tactics(), layer), 2);
      }
}

TEST(ReduceTactics, GlobalAverageWithEpilogueInEveryFormat) {
  LayerCase layer{.op = Reduce{.kind = ReduceKind::Mean, .axes = Ints{2, 3}},
                  .inputs = {{.extents = {2, 300, 7, 7}}},
                  .epilogue = PointwiseProgram::parse("Mul(0,1) Sigmoid(2)", 2),
                  .operands = {{.extents = {300, 1, 1}, .constant = true}}};
  layer.tolerance = 1e-5;
  EXPECT_GE(check_layer(reduce_tactics(), layer), 3);
}

TEST(ReduceTactics, ProductsAndExponentialsOfRows) {
  for (const auto kind : {ReduceKind::Prod, ReduceKind::LogSumExp, ReduceKind::LogSum})
    for (const int64_t n : {1, 7, 16, 45, 96, 300})
      for (const DType type : {DType::Float32, DType::BFloat16, DType::Float16}) {
        SCOPED_TRACE(std::string(enum_name(kind)) + " " + std::to_string(n));
        LayerCase layer{.op = Reduce{.kind = kind, .axes = Ints{2}},
                        .inputs = {{.dtype = type, .extents = {3, 5, n}, .low = 0.5, .high = 1.5}},
                        .tolerance = 1e-5};
        EXPECT_GE(check_layer(reduce_tactics(), layer), 1);
      }
  LayerCase far{.op = Reduce{.kind = ReduceKind::Prod, .axes = Ints{0, 2}},
                .inputs = {{.extents = {3, 5, 7}}}};
  far.tolerance = 1e-5;
  EXPECT_GE(check_layer(reduce_tactics(), far), 1);
}

// What overflows FP32 on the way.
TEST(ReduceTactics, ProductInDouble) {
  std::vector<float> numbers(64, 1.0f);
  for (size_t i = 0; i < 8; ++i) {
    numbers[i] = 1e30f;
    numbers[i + 40] = 1e-30f;
  }
  EXPECT_GE(check_layer(reduce_tactics(),
                        {.op = Reduce{.kind = ReduceKind::Prod, .axes = Ints{1}},
                         .inputs = {{.extents = {1, 64}, .value = Tensor::from<float>({1, 64}, numbers)}}}),
            1);
}

TEST(ReduceTactics, SaysWhyNot) {
  const auto reasons = refusals(reduce_tactics(), {.op = Reduce{.kind = ReduceKind::Prod, .axes = Ints{0}},
                                                   .inputs = {{.extents = {2, 3}}}});
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("the vector kernel for Prod takes whole rows"), std::string::npos) << reasons[0];
}

TEST(PoolTactics, WindowsInEveryFormat) {
  for (const auto kind : {PoolKind::Max, PoolKind::Average})
    for (const int64_t channels : {3, 80})
      for (const bool ceil_mode : {false, true})
        for (const bool include_pad : {false, true}) {
          const Pool op{.kind = kind,
                        .kernel = {3, 3},
                        .strides = {2, 2},
                        .pads_begin = {1, 1},
                        .pads_end = {1, 1},
                        .ceil_mode = ceil_mode,
                        .count_include_pad = include_pad};
          LayerCase layer{
              .op = op, .inputs = {{.extents = {2, channels, 12, 9}}}, .allowed_types = {DType::BFloat16}};
          EXPECT_GE(check_layer(pool_tactics(), layer), 4);
          layer.epilogue = PointwiseProgram::parse("Add(0,1)", 2);
          layer.operands = {{.extents = {2, channels, ceil_mode ? 7 : 6, 5}}};
          if (!ceil_mode) {
            EXPECT_GE(check_layer(pool_tactics(), layer), 4);
          }
        }
}

TEST(PoolTactics, DilationGlobalAndOneDim) {
  EXPECT_GE(check_layer(pool_tactics(), {.op = Pool{.kernel = {2, 3}, .dilations = {2, 2}},
                                         .inputs = {{.extents = {1, 20, 9, 9}}}}),
            2);
  LayerCase global{.op = Pool{.kind = PoolKind::Average, .kernel = {7, 7}},
                   .inputs = {{.extents = {2, 40, 7, 7}}},
                   .allowed_types = {DType::BFloat16}};
  global.tolerance = 1e-5;
  EXPECT_GE(check_layer(pool_tactics(), global), 6);
  EXPECT_GE(check_layer(pool_tactics(),
                        {.op = Pool{.kernel = {3}, .strides = {2}}, .inputs = {{.extents = {2, 20, 15}}}}),
            2);
}

TEST(PoolTactics, SaysWhyNot) {
  const auto reasons = refusals(pool_tactics(), {.op = Pool{.kind = PoolKind::Lp, .kernel = {2, 2}},
                                                 .inputs = {{.extents = {1, 3, 4, 4}}}});
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("Lp pooling"), std::string::npos) << reasons[0];
}

// As integers: every pair of zeros, infinities, NaNs of both signs and ordinary numbers; NaN wins.
TEST(ReduceKernels, MaximumOfBf16) {
  const std::vector<uint16_t> numbers = {0x0000, 0x8000, 0x0001, 0x8001, 0x3f80, 0xbf80, 0x7f7f,
                                         0xff7f, 0x7f80, 0xff80, 0x7f81, 0xff81, 0x7fff, 0xffff};
  constexpr int64_t kChannels = 53;  // whole vectors and single channels
  for (const uint16_t a : numbers)
    for (const uint16_t b : numbers) {
      std::vector<uint16_t> pair(kChannels, a), most(kChannels);
      pair.insert(pair.end(), kChannels, b);
      reduce_table_avx2().max_windows_bf16(pair.data(), {1, 2, 0, kChannels}, kChannels, 1, 0, most.data());
      const float x = bf16_to_float(a), y = bf16_to_float(b), z = bf16_to_float(most[0]);
      EXPECT_EQ(most, std::vector<uint16_t>(kChannels, most[0]));
      if (std::isnan(x) || std::isnan(y))
        EXPECT_TRUE(std::isnan(z)) << a << " " << b;
      else
        EXPECT_EQ(z, std::max(x, y)) << a << " " << b;
    }
}

}  // namespace
}  // namespace lathe::cpu
