// SPDX-License-Identifier: Apache-2.0
//
// Small float types as storage: conversion to and from float, rounding to nearest even. Formats: IEEE 754
// binary16, bfloat16 (upper half of binary32), and ONNX's FP8 family
// (https://onnx.ai/onnx/technical/float8.html).
#pragma once

#include <bit>
#include <cstdint>

namespace lathe {

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);  // NaN stays NaN
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float fp16_to_float(uint16_t bits);
uint16_t float_to_fp16(float value);

enum class Fp8Kind { E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ };
float fp8_to_float(uint8_t bits, Fp8Kind kind);
// `saturate`: out of range becomes the largest finite value instead of NaN or infinity (ONNX Cast's default).
uint8_t float_to_fp8(float value, Fp8Kind kind, bool saturate = true);

// E2M1 in the low four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. Always saturates; NaN, which it
// lacks, gives -0.
float fp4_to_float(uint8_t bits);
uint8_t float_to_fp4(float value);

// E8M0: the exponent of a power of two from 2^-127 to 2^127; 255 is NaN. Up: to the next power away from
// zero, also from zero itself (2^-127). Negative numbers have no power of two: NaN. Without `saturate` what
// is out of range (zero, too) is NaN.
enum class E8M0Rounding : uint8_t { Up, Down, Nearest };
float e8m0_to_float(uint8_t bits);
uint8_t float_to_e8m0(float value, E8M0Rounding round = E8M0Rounding::Up, bool saturate = true);

}  // namespace lathe
