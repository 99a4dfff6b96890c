// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily lu_tactics();
namespace {

constexpr DType kMatrixTypes[] = {DType::Float32, DType::Float64};

// Few batches fill all lanes; matrices above 32 x 32 and single ones go by their rows.
TEST(LuTactics, SizesBatchesAndTypes) {
  for (const DType type : kMatrixTypes)
    for (const int64_t n : {1, 2, 3, 4, 7, 16, 32, 33, 50})
      for (const Extents& batch : {Extents{}, Extents{1}, Extents{3}, Extents{2, 5}, Extents{17}}) {
        SCOPED_TRACE(std::to_string(n) + " " + to_string(batch));
        Extents shape = batch;
        shape.insert(shape.end(), {n, n});
        const CheckedInput x{.dtype = type, .extents = shape, .low = -2, .high = 2};
        EXPECT_GE(check_layer(lu_tactics(), {.op = Det{}, .inputs = {x}, .rounding = 16}), 1);
        EXPECT_GE(check_layer(lu_tactics(), {.op = Inverse{}, .inputs = {x}, .rounding = 16}), 1);
      }
}

CheckedInput given(const Extents& extents, const std::vector<float>& values) {
  return {.extents = extents, .value = Tensor::from<float>(extents, values)};
}

// Exchanges, a column without pivot, and NaN: next to matrices that have none of it.
TEST(LuTactics, PivotsOfEachLane) {
  const CheckedInput x = given({5, 3, 3}, {0, 1, 0, 1, 0, 0, 0, 0, 1,  // one exchange
                                           0, 0, 2, 3, 0, 0, 0, 4, 0,  // two
                                           1, 2, 3, 2, 4, 6, 0, 1, 5,  // no inverse
                                           2, 0, 0, 0, 3, 0, 0, 0, 4,  // none
                                           1, 1, 0, 0, 1, 1, 1, 0, 1});
  EXPECT_GE(check_layer(lu_tactics(), {.op = Det{}, .inputs = {x}}), 1);
  const CheckedInput zeros = given({2, 2, 2}, {0, 0, 0, 0, 1, 2, 3, 4});
  EXPECT_GE(check_layer(lu_tactics(), {.op = Det{}, .inputs = {zeros}}), 1);
  const CheckedInput regular = given({3, 2, 2}, {0, 1, 2, 0, 1, 2, 3, 4, -1, 0, 0, 5});
  EXPECT_GE(check_layer(lu_tactics(), {.op = Inverse{}, .inputs = {regular}, .rounding = 4}), 1);
}

// By rows: a pivot in another row for each column, an odd number of columns, and one without a pivot.
TEST(LuTactics, PivotsOfLargeMatrices) {
  for (const int64_t n : {40, 41})
    for (const int64_t empty : {int64_t{-1}, int64_t{0}, int64_t{7}, n - 1}) {
      std::vector<float> values(static_cast<size_t>(n * n));
      for (int64_t i = 0; i < n; ++i)
        if (i != empty) values[static_cast<size_t>((i + 3) % n * n + i)] = static_cast<float>(i % 3) - 3.5f;
      EXPECT_GE(check_layer(lu_tactics(), {.op = Det{}, .inputs = {given({n, n}, values)}, .rounding = 4}),
                1);
    }
}

TEST(LuTactics, RefusesOtherTypes) {
  const std::vector<std::string> why =
      refusals(lu_tactics(), {.op = Det{}, .inputs = {{DType::Float16, {2, 3, 3}}}});
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].find("matrices of float16 instead of 32 or 64 bit floats"), std::string::npos) << why[0];
}

}  // namespace
}  // namespace lathe::cpu
