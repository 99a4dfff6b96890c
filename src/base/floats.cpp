// SPDX-License-Identifier: Apache-2.0
//
// One rounding routine serves every small binary format: a float is a significand times a power of two, the
// target has `mantissa` stored bits, and what is cut off decides up, down or (in the middle) towards the even
// neighbour. The formats differ only in their bias, in what lies above the largest finite number, and in how
// NaN is spelled.
#include "base/floats.h"

#include <array>
#include <cmath>
#include <cstddef>

namespace lathe {
namespace {

struct SmallFormat {
  int mantissa;  // stored bits
  int bias;
  uint32_t max_finite;  // magnitude bits of the largest finite number
  uint32_t infinity;    // magnitude bits; == nan when there is none
  uint32_t nan;         // all bits; for the UZ formats it sits where -0 would be
  uint32_t sign;        // the sign bit
  bool negative_zero;
};

constexpr SmallFormat kFp16{10, 15, 0x7bff, 0x7c00, 0x7e00, 0x8000, true};
constexpr SmallFormat kFp4{1, 1, 0x7, 0x7, 0x8, 0x8, true};  // neither infinity nor NaN
constexpr std::array<SmallFormat, 4> kFp8 = {{
    {3, 7, 0x7e, 0x7f, 0x7f, 0x80, true},    // E4M3FN: S.1111.111 is NaN, no infinity
    {3, 8, 0x7f, 0x80, 0x80, 0x80, false},   // E4M3FNUZ: 0x80 is NaN
    {2, 15, 0x7b, 0x7c, 0x7f, 0x80, true},   // E5M2: IEEE-like
    {2, 16, 0x7f, 0x80, 0x80, 0x80, false},  // E5M2FNUZ
}};

// Magnitude bits of |value| rounded to nearest even, as if the exponent range went on for ever upwards.
uint32_t round_magnitude(uint32_t float_bits, const SmallFormat& format) {
  const int exponent = static_cast<int>(float_bits >> 23);
  if (exponent == 0)
    return 0;  // a float's subnormals are far below half of the smallest value of all formats here
  const uint32_t significand = (float_bits & 0x7fffffu) | 0x800000u;
  int target_exponent = exponent - 127 + format.bias;
  int cut = 23 - format.mantissa;
  if (target_exponent < 1) {  // becomes subnormal: more bits fall off, the stored exponent is 0
    cut += 1 - target_exponent;
    target_exponent = 0;
    if (cut > 25) return 0;
  } else {
    --target_exponent;  // the significand's leading one adds it back below
  }
  const uint32_t kept = significand >> cut;
  const uint32_t rest = significand & ((1u << cut) - 1);
  const uint32_t half = 1u << (cut - 1);
  const uint32_t up = rest > half || (rest == half && (kept & 1u) != 0) ? 1 : 0;
  return (static_cast<uint32_t>(target_exponent) << format.mantissa) + kept + up;
}

uint32_t encode(float value, const SmallFormat& format, bool saturate) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 31) != 0 ? format.sign : 0;
  const uint32_t magnitude_bits = bits & 0x7fffffffu;
  if (magnitude_bits > 0x7f800000u) return format.negative_zero ? sign | format.nan : format.nan;
  uint32_t magnitude =
      magnitude_bits == 0x7f800000u ? format.max_finite + 1 : round_magnitude(magnitude_bits, format);
  if (magnitude > format.max_finite) {
    if (saturate) return sign | format.max_finite;
    return format.negative_zero ? sign | format.infinity : format.infinity;
  }
  if (magnitude == 0 && !format.negative_zero) return 0;
  return sign | magnitude;
}

float decode(uint32_t bits, const SmallFormat& format) {
  const uint32_t magnitude = bits & (format.sign - 1);
  const bool negative = (bits & format.sign) != 0;
  const bool is_nan =
      format.negative_zero ? magnitude > format.infinity || (magnitude == format.nan) : bits == format.nan;
  if (is_nan) return std::bit_cast<float>(0x7fc00000u | (negative ? 0x80000000u : 0u));
  if (magnitude > format.max_finite) return negative ? -INFINITY : INFINITY;
  const int exponent = static_cast<int>(magnitude >> format.mantissa);
  const uint32_t fraction = magnitude & ((1u << format.mantissa) - 1);
  const float value = exponent == 0
                          ? std::ldexp(static_cast<float>(fraction), 1 - format.bias - format.mantissa)
                          : std::ldexp(static_cast<float>(fraction | (1u << format.mantissa)),
                                       exponent - format.bias - format.mantissa);
  return negative ? -value : value;
}

}  // namespace

float fp16_to_float(uint16_t bits) {
  // The common path without ldexp: weights and tensors pass through here by the million.
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t float_to_fp16(float value) {
  return static_cast<uint16_t>(encode(value, kFp16, false));
}

float fp8_to_float(uint8_t bits, Fp8Kind kind) {
  return decode(bits, kFp8[static_cast<size_t>(kind)]);
}

uint8_t float_to_fp8(float value, Fp8Kind kind, bool saturate) {
  return static_cast<uint8_t>(encode(value, kFp8[static_cast<size_t>(kind)], saturate));
}

float fp4_to_float(uint8_t bits) {
  constexpr std::array<float, 8> kMagnitudes = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const float magnitude = kMagnitudes[bits & 7u];
  return (bits & 8u) != 0 ? -magnitude : magnitude;
}

uint8_t float_to_fp4(float value) {
  if (std::isnan(value)) return 8;
  return static_cast<uint8_t>(encode(value, kFp4, true));
}

float e8m0_to_float(uint8_t bits) {
  if (bits == 255) return NAN;
  return std::ldexp(1.0f, static_cast<int>(bits) - 127);
}

uint8_t float_to_e8m0(float value, E8M0Rounding round, bool saturate) {
  constexpr uint8_t kLargest = 254, kNan = 255;
  if (std::isnan(value) || value < 0) return kNan;
  if (value == 0) return saturate ? 0 : kNan;
  if (std::isinf(value)) return saturate ? kLargest : kNan;
  int exponent = 0;  // value = fraction * 2^exponent, fraction in [0.5, 1)
  const float fraction = std::frexp(value, &exponent);
  const bool up =
      round == E8M0Rounding::Up ? fraction > 0.5f : round == E8M0Rounding::Nearest && fraction >= 0.75f;
  const int biased = exponent - 1 + 127 + (up ? 1 : 0);
  if (biased < 0 || biased > kLargest) return saturate ? (biased < 0 ? 0 : kLargest) : kNan;
  return static_cast<uint8_t>(biased);
}

}  // namespace lathe
