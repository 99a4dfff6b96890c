// SPDX-License-Identifier: Apache-2.0
//
// The inner product of the reference evaluation: 4 x 4 results stay in eight registers of two doubles, which
// every x86-64 and AArch64 has. Written out by hand, because -O2 does not unroll loops over registers and
// would keep the sums in memory.

#include "ops/gemm.h"

#include <cstring>

namespace lathe::gemm {

namespace {

using Pair = double __attribute__((vector_size(16)));

Pair load(const double* from) {
  Pair pair;
  std::memcpy(&pair, from, sizeof pair);
  return pair;
}

void add_to(double* to, Pair sum) {
  const Pair total = load(to) + sum;
  std::memcpy(to, &total, sizeof total);
}

// c (4 x 4, row stride kTileColumns) += one panel of A times one panel of B.
void multiply_panels(const double* a, const double* b, int64_t depth, double* c) {
  Pair c00 = {}, c01 = {}, c10 = {}, c11 = {}, c20 = {}, c21 = {}, c30 = {}, c31 = {};
  for (int64_t k = 0; k < depth; ++k, a += kPanel, b += kPanel) {
    const Pair b0 = load(b), b1 = load(b + 2);
    const Pair a0 = {a[0], a[0]}, a1 = {a[1], a[1]}, a2 = {a[2], a[2]}, a3 = {a[3], a[3]};
    c00 += a0 * b0;
    c01 += a0 * b1;
    c10 += a1 * b0;
    c11 += a1 * b1;
    c20 += a2 * b0;
    c21 += a2 * b1;
    c30 += a3 * b0;
    c31 += a3 * b1;
  }
  add_to(c, c00);
  add_to(c + 2, c01);
  add_to(c + kTileColumns, c10);
  add_to(c + kTileColumns + 2, c11);
  add_to(c + 2 * kTileColumns, c20);
  add_to(c + 2 * kTileColumns + 2, c21);
  add_to(c + 3 * kTileColumns, c30);
  add_to(c + 3 * kTileColumns + 2, c31);
}

}  // namespace

void multiply_tile(const double* a, const double* b, int64_t rows, int64_t columns, int64_t depth,
                   double* c) {
  for (int64_t j = 0; j < columns; j += kPanel) {
    for (int64_t i = 0; i < rows; i += kPanel) {
      multiply_panels(a + i * depth, b + j * depth, depth, c + i * kTileColumns + j);
    }
  }
}

}  // namespace lathe::gemm
