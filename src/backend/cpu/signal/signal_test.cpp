// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily dft_tactics();
TacticFamily stft_tactics();
namespace {

CheckedInput number(int64_t value) {
  return {.constant = true, .value = Tensor::from<int64_t>({}, std::vector<int64_t>{value})};
}
CheckedInput absent() {
  return {.absent = true};
}

// Powers of two, products of small primes, primes with a radix of their own, and those that become a
// convolution.
constexpr int64_t kLengths[] = {1,  2,  3,  4,   5,   7,   8,   12,  15,  16,  49,
                                47, 53, 64, 100, 106, 127, 360, 400, 512, 1009};

TEST(DftTactics, LengthsDirectionsAndParts) {
  for (const int64_t n : kLengths)
    for (const bool inverse : {false, true})
      for (const int64_t parts : {1, 2}) {
        SCOPED_TRACE(n);
        EXPECT_GE(
            check_layer(dft_tactics(), {.op = DFT{inverse, false}, .inputs = {{.extents = {3, n, parts}}}}),
            1);
        EXPECT_GE(
            check_layer(dft_tactics(), {.op = DFT{inverse, true},
                                        .inputs = {{.extents = {2, n, parts}}, number(n > 2 ? n - 1 : n)}}),
            1);
      }
}

TEST(DftTactics, AxesTypesAndLengthsOfTheirOwn) {
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16})
    for (const int64_t axis : {0, 1, 2, -2})
      for (const int64_t n : {5, 9, 24}) {
        EXPECT_GE(check_layer(dft_tactics(), {.op = DFT{},
                                              .inputs = {{type, {9, 10, 21, 2}}, number(n), number(axis)},
                                              .rounding = 2}),
                  1);
        EXPECT_GE(check_layer(dft_tactics(), {.op = DFT{true, true},
                                              .inputs = {{type, {9, 10, 21, 2}}, absent(), number(axis)},
                                              .rounding = 2}),
                  1);
      }
}

TEST(DftTactics, RefusesALengthOfRunTime) {
  const LayerCase layer{.op = DFT{}, .inputs = {{.extents = {1, 8, 1}}, {DType::Int64, {}, false, 8, 8}}};
  const std::vector<std::string> why = refusals(dft_tactics(), layer);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].find("the length is known only at run time"), std::string::npos) << why[0];
}

TEST(StftTactics, WindowsStepsAndTypes) {
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16})
    for (const bool onesided : {true, false})
      for (const int64_t parts : {1, 2})
        for (const int64_t step : {1, 13, 60}) {
          const CheckedInput signal{type, {2, 200, parts}};
          const CheckedInput window{type, {40}, false, 0, 1};
          EXPECT_GE(
              check_layer(stft_tactics(),
                          {.op = STFT{onesided}, .inputs = {signal, number(step), window}, .rounding = 2}),
              1);
          EXPECT_GE(check_layer(stft_tactics(), {.op = STFT{onesided},
                                                 .inputs = {signal, number(step), absent(), number(61)},
                                                 .rounding = 2}),
                    1);
        }
}

}  // namespace
}  // namespace lathe::cpu
