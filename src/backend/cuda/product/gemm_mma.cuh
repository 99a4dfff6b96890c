// SPDX-License-Identifier: Apache-2.0
//
// Products and convolutions on tensor cores (mma.sync), for codegen_gemm.cpp.
//
// The generator writes in front:
//   STAGES                     tiles of A and B that are on their way or in use
//   WM, WN                     rows and columns of a warp's tile
//   WARPS_N                    such tiles side by side
//   BK                         elements of K in a step
//   A_PITCH, B_PITCH           elements from row to row of a tile in shared memory
//   A_STAGE, B_STAGE           elements of a tile
//   B_IS_ROWS                  rows of B's tile are K
//   B_IS_EARLY                 B is there before the previous kernel has ended
//   V                          results that are stored at once
//   UNIT                       elements in 16 bytes
//   Sum                        type of a sum
//   MULTIPLY(sums, a, b0, b1)  16 x 2 UNIT times 2 UNIT x 8 elements

//# kGemmMma
// Steps `first` to `last` of K. fetch_a(step, to) and fetch_b(step, to) start the copies of tiles to shared
// memory; start(column) is what the sums of a column begin with; result(row, column, v) takes sums from (row,
// column) of the block's tile on, which lies at (m0, n0).
template <class T, class FetchA, class FetchB, class Start, class Result>
DEV void compute_gemm_tile(idx first, idx last, idx m0, idx n0, FetchA fetch_a, FetchB fetch_b, Start start,
                           Result result) {
  T* as = (T*)shared_memory();
  T* bs = as + STAGES * A_STAGE;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = lane / 8, g = lane / 4, t = lane % 4;
  const int wm0 = warp / WARPS_N * WM, wn0 = warp % WARPS_N * WN;
  const idx tiles = last - first;
  Sum sum[WM / 16][WN / 8][4];
#pragma unroll
  for (int c = 0; c < WN / 8; ++c)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const Sum first_sum = start(n0 + wn0 + c * 8 + t * 2 + e);
#pragma unroll
      for (int r = 0; r < WM / 16; ++r) sum[r][c][e] = sum[r][c][2 + e] = first_sum;
    }
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s)
    if (s < tiles) fetch_b(first + s, bs + s * B_STAGE);
  if constexpr (B_IS_EARLY) wait_for_previous_kernel();
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < tiles) fetch_a(first + s, as + s * A_STAGE);
    copy_commit();
  }
  for (idx i = 0; i < tiles; ++i) {
    copy_wait<STAGES - 2>();
    __syncthreads();
    const idx ahead = i + STAGES - 1;
    if (ahead < tiles) {
      fetch_b(first + ahead, bs + ahead % STAGES * B_STAGE);
      fetch_a(first + ahead, as + ahead % STAGES * A_STAGE);
    }
    copy_commit();
    const T* a_tile = as + i % STAGES * A_STAGE;
    const T* b_tile = bs + i % STAGES * B_STAGE;
#pragma unroll
    for (int k = 0; k < BK; k += 2 * UNIT) {
      u32 a[WM / 16][4], b[WN / 16][4];
#pragma unroll
      for (int r = 0; r < WM / 16; ++r)
        load_matrix(a[r], a_tile + (wm0 + r * 16 + m % 2 * 8 + lane % 8) * A_PITCH + k + m / 2 * UNIT);
#pragma unroll
      for (int c = 0; c < WN / 16; ++c)
        if constexpr (B_IS_ROWS)
          load_matrix_transposed(b[c],
                                 b_tile + (k + m % 2 * 8 + lane % 8) * B_PITCH + wn0 + c * 16 + m / 2 * 8);
        else
          load_matrix(b[c], b_tile + (wn0 + c * 16 + m / 2 * 8 + lane % 8) * B_PITCH + k + m % 2 * UNIT);
#pragma unroll
      for (int r = 0; r < WM / 16; ++r)
#pragma unroll
        for (int c = 0; c < WN / 16; ++c) {
          MULTIPLY(sum[r][2 * c], a[r], b[c][0], b[c][1]);
          MULTIPLY(sum[r][2 * c + 1], a[r], b[c][2], b[c][3]);
        }
    }
  }
  copy_wait<0>();
  __syncthreads();
  // Sixteen rows of the warp's tile at a time, turned into vectors.
  constexpr int PITCH = WN + 4;
  float* strip = (float*)shared_memory() + warp * 16 * PITCH;
#pragma unroll
  for (int r = 0; r < WM / 16; ++r) {
#pragma unroll
    for (int c = 0; c < WN / 8; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        strip[(g + e / 2 * 8) * PITCH + c * 8 + t * 2 + e % 2] = (float)sum[r][c][e];
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * WN / V; i += 32) {
      const int row = i / (WN / V), column = i % (WN / V) * V;
      float v[V];
#pragma unroll
      for (int j = 0; j < V; ++j) v[j] = strip[row * PITCH + column + j];
      result(m0 + wm0 + r * 16 + row, n0 + wn0 + column, v);
    }
    __syncwarp();
  }
}
