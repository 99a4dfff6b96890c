// SPDX-License-Identifier: Apache-2.0
//
// The vector loops of pointwise operations, one table per instruction set. Loops work on runs of FP32
// elements; a run may start anywhere and have any length, and the output may be an input.
#pragma once

#include <cstdint>

namespace lathe::cpu {

using UnaryLoop = void (*)(const float* a, float* out, int64_t n, float alpha, float beta);
using BinaryLoop = void (*)(const float* a, const float* b, float* out, int64_t n);
using TernaryLoop = void (*)(const float* a, const float* b, const float* c, float* out, int64_t n);

// Operands as vectors, or one of them a single value.
struct BinaryLoops {
  BinaryLoop vector_vector, vector_scalar, scalar_vector;
};

struct PointwiseTable {
  UnaryLoop copy, abs, neg, sign, reciprocal, sqrt, rsqrt, square, exp, log, sin, cos, tan, asin, acos, atan,
      sinh, cosh, tanh, asinh, acosh, atanh, erf, ceil, floor, round, logical_not, is_nan, relu, sigmoid,
      softplus, softsign, hard_swish, mish, silu, gelu_erf, gelu_tanh, leaky_relu, elu, celu, selu,
      thresholded_relu, hard_sigmoid, clip, shrink, is_inf, linear, round_to, round_to_e4m3;
  BinaryLoops add, sub, mul, div, pow, min, max, mod, fmod, prelu, logical_and, logical_or, logical_xor,
      equal, less, less_or_equal, greater, greater_or_equal;
  TernaryLoop where;
  void (*load_bf16)(const uint16_t* in, float* out, int64_t n);
  void (*load_f16)(const uint16_t* in, float* out, int64_t n);
  void (*store_bf16)(const float* in, uint16_t* out, int64_t n);
  void (*store_f16)(const float* in, uint16_t* out, int64_t n);
  // Integers as the numbers that they are; back toward zero, the nearest where there is no such integer, NaN
  // as zero.
  using LoadIntegers = void (*)(const void* in, float* out, int64_t n);
  using StoreIntegers = void (*)(const float* in, void* out, int64_t n);
  LoadIntegers load_i8, load_u8, load_i16, load_u16, load_i32, load_i64;
  StoreIntegers store_i8, store_u8, store_i16, store_u16, store_i32, store_i64;
  // Integers of a grid as the numbers (q - zero) * scale, and the nearest integer of a number, NaN as `zero`.
  void (*load_grid)(const uint8_t* in, float* out, int64_t n, float scale, float zero);
  void (*store_grid)(const float* in, uint8_t* out, int64_t n, float scale, float zero);
  // Bool as 1 and 0, and back; as what a mask adds to scores: 0 and minus infinity.
  void (*load_bool)(const uint8_t* in, float* out, int64_t n);
  void (*store_bool)(const float* in, uint8_t* out, int64_t n);
  void (*load_mask)(const uint8_t* in, float* out, int64_t n);
  // `rows` rows of `cols` elements.
  void (*copy_rows)(const float* in, int64_t in_stride, float* out, int64_t out_stride, int64_t rows,
                    int64_t cols);
  void (*splat)(float value, float* out, int64_t n);
};

const PointwiseTable& pointwise_table_avx2();
const PointwiseTable& pointwise_table_avx512();

}  // namespace lathe::cpu
