// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily row_pool_tactics();
namespace {

int check_rows(const Pool& op, Extents x, size_t outputs = 1) {
  LayerCase layer{.op = op,
                  .inputs = {{.extents = std::move(x)}},
                  .outputs = outputs,
                  .allowed_types = {DType::BFloat16, DType::Float16}};
  layer.tolerance = 4e-6;
  return check_layer(row_pool_tactics(), layer);
}

TEST(RowPoolTactics, KindsWindowsAndTypes) {
  for (const int64_t stride : {1, 2, 3})
    for (const bool ceil_mode : {false, true})
      for (const bool include_pad : {false, true}) {
        Pool op{.kernel = {3, 2},
                .strides = {stride, stride},
                .dilations = {1, 2},
                .pads_begin = {1, 1},
                .pads_end = {2, 0},
                .ceil_mode = ceil_mode,
                .count_include_pad = include_pad};
        EXPECT_GE(check_rows(op, {2, 3, 12, 19}), 3);
        op.kind = PoolKind::Average;
        EXPECT_GE(check_rows(op, {2, 3, 12, 19}), 3);
        op.kind = PoolKind::Lp;
        for (const int64_t p : {1, 2, 3}) {
          op.p = p;
          EXPECT_GE(check_rows(op, {1, 3, 12, 19}), 3);
        }
      }
}

// In registers where most columns have all taps; a tap after the other where the window is wider than that.
TEST(RowPoolTactics, WindowsOfStepOne) {
  for (const PoolKind kind : {PoolKind::Max, PoolKind::Average, PoolKind::Lp})
    for (const int64_t k : {3, 9}) {
      Pool op{.kind = kind,
              .kernel = {k, k},
              .dilations = {1, 12 / k},
              .pads_begin = {k / 2, k / 2},
              .pads_end = {k / 2, k / 2}};
      EXPECT_GE(check_rows(op, {1, 2, 13, 70}), 3);
      EXPECT_GE(check_rows(op, {1, 2, 10, 20}), 3);
    }
}

TEST(RowPoolTactics, Indices) {
  for (const bool column_major : {false, true})
    for (const int64_t stride : {1, 2, 3}) {
      const Pool op{.kernel = {3, 3},
                    .strides = {stride, stride},
                    .dilations = {2, 1},
                    .pads_begin = {2, 1},
                    .pads_end = {2, 1},
                    .column_major = column_major};
      EXPECT_GE(check_rows(op, {2, 3, 11, 35}, 2), 3);
    }
  EXPECT_GE(check_rows({.kernel = {2}, .strides = {2}}, {2, 3, 35}, 2), 3);
  EXPECT_GE(check_rows({.kernel = {2, 2, 2}, .strides = {2, 1, 2}, .column_major = true}, {1, 2, 4, 5, 6}, 2),
            3);
}

TEST(RowPoolTactics, RanksAndEpilogues) {
  const Pool cube{.kind = PoolKind::Average,
                  .kernel = {3, 2, 3},
                  .strides = {2, 1, 1},
                  .pads_begin = {1, 0, 1},
                  .pads_end = {1, 0, 1}};
  EXPECT_GE(check_rows(cube, {2, 3, 5, 6, 7}), 3);
  EXPECT_GE(check_rows({.kernel = {5}, .auto_pad = AutoPad::SameLower}, {2, 3, 40}), 3);
  LayerCase layer{.op = Pool{.kind = PoolKind::Lp, .kernel = {2, 2}},
                  .inputs = {{.extents = {1, 3, 5, 6}}},
                  .epilogue = PointwiseProgram::parse("Relu(0) Add(1,2)", 2),
                  .operands = {{.extents = {1, 3, 4, 5}}}};
  EXPECT_GE(check_layer(row_pool_tactics(), layer), 1);
}

TEST(RowPoolTactics, RefusesWhatIsNoVectorFloat) {
  const std::vector<std::string> why = refusals(
      row_pool_tactics(), {.op = Pool{.kernel = {2, 2}}, .inputs = {{DType::Float64, {1, 3, 5, 6}}}});
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].find("no vector kernel for"), std::string::npos) << why[0];
}

}  // namespace
}  // namespace lathe::cpu
