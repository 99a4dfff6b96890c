// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily lrn_tactics();
namespace {

TEST(LrnTactics, WindowsPowersAndTypes) {
  for (const int64_t size : {1, 2, 5, 9, 40})
    for (const float beta : {0.75f, 0.5f, 1.0f, 0.6f, 2.5f})
      for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16})
        EXPECT_GE(
            check_layer(lrn_tactics(), {.op = Lrn{.size = size, .alpha = 0.3f, .beta = beta, .bias = 1.5f},
                                        .inputs = {{type, {2, 19, 5, 7}}},
                                        .rounding = 2}),
            2);
}

TEST(LrnTactics, RanksAndLongPlanes) {
  for (const Extents& x : {Extents{3, 40}, Extents{2, 3, 600}, Extents{1, 7, 3, 4, 5}, Extents{1, 70, 33, 40},
                           Extents{0, 3, 4, 4}})
    EXPECT_GE(check_layer(lrn_tactics(), {.op = Lrn{.alpha = 1}, .inputs = {{.extents = x}}}),
              x.size() > 2 ? 2 : 1);
}

TEST(LrnTactics, Epilogue) {
  EXPECT_GE(check_layer(lrn_tactics(), {.op = Lrn{},
                                        .inputs = {{.extents = {2, 11, 6, 7}}},
                                        .epilogue = PointwiseProgram::parse("Relu(0) Add(1,2)", 2),
                                        .operands = {{.extents = {2, 11, 6, 7}}}}),
            2);
}

TEST(LrnTactics, RefusesPowersOfNegativeNumbers) {
  const std::vector<std::string> why =
      refusals(lrn_tactics(), {.op = Lrn{.alpha = -1, .beta = 2}, .inputs = {{.extents = {1, 3, 4, 4}}}});
  ASSERT_EQ(why.size(), 2u);
  EXPECT_NE(why[0].find("a power of what may be negative"), std::string::npos) << why[0];
}

}  // namespace
}  // namespace lathe::cpu
