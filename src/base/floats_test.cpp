// SPDX-License-Identifier: Apache-2.0
//
// Small enough to test all: each format's values are decoded by their definition, and encoding must pick the
// nearest.
#include "base/floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lathe {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Fp16, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = fp16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(fp16_to_float(float_to_fp16(value))));
    } else {
      ASSERT_EQ(float_to_fp16(value), bits);
    }
  }
}

TEST(Fp16, KnownValues) {
  EXPECT_EQ(fp16_to_float(0x3c00), 1.0f);
  EXPECT_EQ(fp16_to_float(0x7bff), 65504.0f);
  EXPECT_EQ(fp16_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(float_to_fp16(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0f), 0x7c00);  // half way to the next power of two: infinity
  EXPECT_EQ(float_to_fp16(-kInf), 0xfc00);
  EXPECT_EQ(float_to_fp16(1e10f), 0x7c00);
  EXPECT_EQ(float_to_fp16(0x1p-25f), 0);  // a tie, to even
  EXPECT_EQ(float_to_fp16(0x1.8p-25f), 1);
  EXPECT_EQ(float_to_fp16(-0.0f), 0x8000);
  EXPECT_EQ(float_to_fp16(1e-40f), 0);
}

TEST(Fp16, RoundsToNearestEvenBetweenNeighbours) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = fp16_to_float(bits), high = fp16_to_float(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;  // exact in float
    ASSERT_EQ(float_to_fp16(middle), (bits & 1) != 0 ? bits + 1 : bits) << bits;
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, kInf)), bits + 1);
  }
}

TEST(Bf16, RoundsAndKeepsNaN) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(float_to_bf16(kInf), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(kNaN))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

struct Fp8Case {
  Fp8Kind kind;
  float max, smallest, out_of_range;  // out_of_range: what infinity becomes without saturation
};

class Fp8 : public ::testing::TestWithParam<Fp8Case> {};

TEST_P(Fp8, RoundTripsEveryValue) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = fp8_to_float(static_cast<uint8_t>(bits), GetParam().kind);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(fp8_to_float(float_to_fp8(value, GetParam().kind), GetParam().kind)));
    } else {
      EXPECT_EQ(float_to_fp8(value, GetParam().kind, false), bits) << value;
    }
  }
}

TEST_P(Fp8, Limits) {
  const Fp8Case& c = GetParam();
  const auto decoded = [&](float value, bool saturate) {
    return fp8_to_float(float_to_fp8(value, c.kind, saturate), c.kind);
  };
  EXPECT_EQ(decoded(c.max, true), c.max);
  EXPECT_EQ(decoded(-1e6f, true), -c.max);
  EXPECT_EQ(decoded(kInf, true), c.max);
  EXPECT_EQ(fp8_to_float(1, c.kind), c.smallest);
  EXPECT_EQ(decoded(c.smallest / 2, true), 0.0f);
  EXPECT_EQ(decoded(c.smallest * 0.75f, true), c.smallest);
  EXPECT_TRUE(std::isnan(decoded(kNaN, true)));
  for (const float big : {kInf, 1e6f}) {
    if (std::isnan(c.out_of_range)) {
      EXPECT_TRUE(std::isnan(decoded(big, false)));
    } else {
      EXPECT_EQ(decoded(big, false), c.out_of_range);
      EXPECT_EQ(decoded(-big, false), -c.out_of_range);
    }
  }
}

TEST_P(Fp8, EncodesToTheNearest) {
  const Fp8Kind kind = GetParam().kind;
  for (float value = -500; value < 500; value += 0.37f) {
    const float got = fp8_to_float(float_to_fp8(value, kind), kind);
    for (int bits = 0; bits < 256; ++bits) {
      const float other = fp8_to_float(static_cast<uint8_t>(bits), kind);
      if (!std::isfinite(other)) continue;
      EXPECT_LE(std::fabs(got - value), std::fabs(other - value)) << value;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Fp8,
                         ::testing::Values(Fp8Case{Fp8Kind::E4M3FN, 448, 0x1p-9f, kNaN},
                                           Fp8Case{Fp8Kind::E4M3FNUZ, 240, 0x1p-10f, kNaN},
                                           Fp8Case{Fp8Kind::E5M2, 57344, 0x1p-16f, kInf},
                                           Fp8Case{Fp8Kind::E5M2FNUZ, 57344, 0x1p-17f, kNaN}));

TEST(Fp8Formats, UnsignedZeroFormatsHaveNoNegativeZero) {
  EXPECT_EQ(float_to_fp8(-0.0f, Fp8Kind::E4M3FNUZ), 0);
  EXPECT_EQ(float_to_fp8(-1e-9f, Fp8Kind::E5M2FNUZ), 0);
  EXPECT_EQ(float_to_fp8(-0.0f, Fp8Kind::E4M3FN), 0x80);
}

TEST(Fp4, AllCodesAndTheNearest) {
  for (uint8_t bits = 0; bits < 16; ++bits) EXPECT_EQ(float_to_fp4(fp4_to_float(bits)), bits);
  EXPECT_EQ(fp4_to_float(float_to_fp4(0.25f)), 0);  // half way: to the even code
  EXPECT_EQ(fp4_to_float(float_to_fp4(0.75f)), 1);
  EXPECT_EQ(fp4_to_float(float_to_fp4(-3.5f)), -4);
  EXPECT_EQ(fp4_to_float(float_to_fp4(5)), 4);
  EXPECT_EQ(fp4_to_float(float_to_fp4(1e9f)), 6);
  EXPECT_EQ(fp4_to_float(float_to_fp4(-kInf)), -6);
  EXPECT_EQ(float_to_fp4(kNaN), 8);
}

TEST(E8M0, PowersOfTwo) {
  EXPECT_EQ(e8m0_to_float(127), 1);
  EXPECT_EQ(e8m0_to_float(0), 0x1p-127f);
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
  for (int bits = 0; bits < 255; ++bits)
    EXPECT_EQ(float_to_e8m0(e8m0_to_float(static_cast<uint8_t>(bits))), bits);
  EXPECT_EQ(float_to_e8m0(3e38f), 254);
  EXPECT_EQ(float_to_e8m0(3e38f, E8M0Rounding::Up, false), 255);
  EXPECT_EQ(float_to_e8m0(kInf), 254);
  EXPECT_EQ(float_to_e8m0(-1), 255);
  EXPECT_EQ(float_to_e8m0(0x1p-140f), 0);
}

}  // namespace
}  // namespace lathe
