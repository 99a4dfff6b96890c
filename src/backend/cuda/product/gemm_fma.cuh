// SPDX-License-Identifier: Apache-2.0
//
// Products and convolutions with plain multiply-adds, for codegen_gemm.cpp: 256 threads, each 4 x 4 results
// of a 64 x 64 tile, 16 elements of K at a time.
//
// The generator writes in front:
//   A_PITCH, B_PITCH  elements from row to row of a tile in shared memory
//   B_IS_ROWS         rows of B's tile are K

//# kGemmFma
// As in gemm_mma.cuh; result() takes one sum.
template <class T, class FetchA, class FetchB, class Result>
DEV void compute_gemm_tile(idx first, idx last, idx m0, idx n0, FetchA fetch_a, FetchB fetch_b,
                           Result result) {
  __shared__ T as[64 * A_PITCH];
  __shared__ T bs[64 * 17];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  float sum[4][4] = {};
  for (idx i = first; i < last; ++i) {
    __syncthreads();
    fetch_a(i, as);
    fetch_b(i, bs);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      float a[4], b[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) a[r] = widen(as[(y + r * 16) * A_PITCH + k]);
#pragma unroll
      for (int c = 0; c < 4; ++c)
        b[c] = widen(B_IS_ROWS ? bs[k * B_PITCH + x + c * 16] : bs[(x + c * 16) * B_PITCH + k]);
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[r][c] += a[r] * b[c];
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      float v[1] = {sum[r][c]};
      result(m0 + y + r * 16, n0 + x + c * 16, v);
    }
}
