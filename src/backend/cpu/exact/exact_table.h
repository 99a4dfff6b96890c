// SPDX-License-Identifier: Apache-2.0
//
// The vector loops of operations on int64 and double, one table per instruction set: the words in which exact
// pointwise layers compute. A loop does what ops/scalar.h says of its operation, bit for bit; what has none
// (divisions of integers, functions of the C library) runs on the loops of exact_loops.cpp. Operands may be
// one and the same; the output is neither.
#pragma once

#include <cstdint>

namespace lathe::cpu {

struct ExactParameters {
  bool is_uint64 = false;  // the integers are bits of uint64
  double alpha = 0, beta = 0;
};

using IntegerLoop = void (*)(const int64_t* a, const int64_t* b, int64_t* out, int64_t n,
                             const ExactParameters& p);
using RealLoop = void (*)(const double* a, const double* b, double* out, int64_t n, const ExactParameters& p);
using RealTestLoop = void (*)(const double* a, const double* b, int64_t* out, int64_t n,
                              const ExactParameters& p);

struct ExactTable {
  // Signed integers; sums, products, bits and equality are those of uint64, too.
  struct Integers {
    IntegerLoop identity, abs, neg, sign, square, relu, logical_not, bitwise_not, add, sub, mul, min, max,
        logical_and, logical_or, logical_xor, bitwise_and, bitwise_or, bitwise_xor, equal, less,
        less_or_equal, greater, greater_or_equal;
  } integers;
  struct Reals {
    RealLoop identity, abs, neg, square, reciprocal, relu, clip, add, sub, mul, div, min, max;
  } reals;
  struct Tests {
    RealTestLoop equal, less, less_or_equal, greater, greater_or_equal, is_nan;
  } tests;
  // Elements [begin, begin + n) of memory that need not be aligned, as int64 or double; bool as 0 and 1.
  using Load = void (*)(const void* in, int64_t begin, int64_t n, void* out);
  Load load_bool, load_i8, load_u8, load_i16, load_u16, load_i32, load_u32, load_i64, load_f32, load_f64;
  // Integers keep their low bits, bool is "not zero".
  using StoreIntegers = void (*)(const int64_t* in, int64_t begin, int64_t n, void* out);
  using StoreReals = void (*)(const double* in, int64_t begin, int64_t n, void* out);
  StoreIntegers store_bool, store_8, store_16, store_32, store_64, store_f32, store_f64;
  StoreReals store_real_f32, store_real_f64;
  // 64 bits of one or the other operand.
  void (*where)(const int64_t* condition, const void* yes, const void* no, void* out, int64_t n);
  void (*fill)(int64_t* values, int64_t n);  // with the first of them
  // What a narrower type keeps, in place.
  using Wrap = void (*)(int64_t* values, int64_t n);
  Wrap wrap_i8, wrap_u8, wrap_i16, wrap_u16, wrap_i32, wrap_u32;
  void (*round_to_float)(double* values, int64_t n);
  void (*to_reals)(const int64_t* in, double* out, int64_t n);  // signed
};

const ExactTable& exact_table_avx2();
const ExactTable& exact_table_avx512();

}  // namespace lathe::cpu
