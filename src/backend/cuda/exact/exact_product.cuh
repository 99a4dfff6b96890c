// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices in double, or in integers that wrap around (codegen_exact_product.cpp).
//
// The generator writes in front:
//   Number                double or unsigned long long
//   K, M, N               as numbers of the run
//   A_ROW, A_COLUMN, B_ROW, B_COLUMN   strides
//   A, B                  the matrices of this block
//   row0, column0         the block's tile
// and behind: what becomes of sum[R][R], whose elements are row0 + ty + 16 i, column0 + tx + 16 j.

//# kTile
// 256 threads, a tile of 32 x 32 results, 16 elements of k at a time.
constexpr int R = 2, STEP = 16, P = STEP + 1;
Number* as = (Number*)shared_memory();
Number* bs = as + 32 * P;
const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
Number sum[R][R] = {};
for (idx k0 = 0; k0 < K; k0 += STEP) {
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * STEP; i += 256) {
    const int k = i % STEP, r = i / STEP;
    as[r * P + k] =
        row0 + r < M && k0 + k < K ? (Number)widen(A[(row0 + r) * A_ROW + (k0 + k) * A_COLUMN]) : 0;
    // Neighbouring threads read neighbouring columns of b.
    const int column = i % 32, kb = i / 32;
    bs[column * P + kb] = column0 + column < N && k0 + kb < K
                              ? (Number)widen(B[(k0 + kb) * B_ROW + (column0 + column) * B_COLUMN])
                              : 0;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < STEP; ++k)
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < R; ++j) sum[i][j] += as[(ty + 16 * i) * P + k] * bs[(tx + 16 * j) * P + k];
}
