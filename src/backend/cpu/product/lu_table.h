// SPDX-License-Identifier: Apache-2.0
//
// Elimination with the largest pivot of a column, in double: eight small matrices side by side, or one matrix
// by its rows. One table per instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

inline constexpr int64_t kLuLanes = 8;

// Matrices are n x n and used up. Of those side by side, element (i, j) of matrix l lies at (i * n + j) *
// kLuLanes + l, 64-byte aligned; of one matrix, at i * n + j.
struct LuTable {
  void (*determinants)(double* matrices, int64_t n, double* results);
  void (*inverses)(double* matrices, double* results, int64_t n);
  double (*determinant)(double* matrix, int64_t n);
  void (*inverse)(double* matrix, double* result, int64_t n);
};

const LuTable& lu_table_avx2();
const LuTable& lu_table_avx512();

}  // namespace lathe::cpu
