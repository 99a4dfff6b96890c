// SPDX-License-Identifier: Apache-2.0
//
// What x gives to the gates of a recurrent layer (recurrent_inputs.cpp): products with rows of w. Bodies of
// kernels.
//
// The generator writes in front:
//   T                     type of x and w
//   TM, TN                rows and columns of a block's tile
//   N, I, KP              columns; width of x; that of packed w
//   VECTORS               a row of x is whole vectors
//   X_ROWS, W_ROWS, GIVEN, M, row0, column0, bias(n)   operands, rows, the tile's place, and what is added
//   MULTIPLY(sums, a, b0, b1)   a product of tensor cores

//# kPlain
// 256 threads, (TM / 16) x (TN / 16) results each; the next tiles are on their way during the products.
constexpr int R = TM / 16, P = 36, EACH = TM * 8 / 256;
float* xs = (float*)shared_memory();
float* ws = xs + TM * P;
const int column = threadIdx.x % 16, row = threadIdx.x / 16;
float sum[R][R] = {}, next_x[EACH][4], next_w[EACH][4];
const auto fetch = [&](int k0) {
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int r = (threadIdx.x + i * 256) / 8, k = k0 + (threadIdx.x + i * 256) % 8 * 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) next_x[i][j] = 0;
    if (row0 + r < M) {
      const float* from = X_ROWS + (row0 + r) * I + k;
      if constexpr (VECTORS) {
        if (k < I) load(from, next_x[i]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (k + j < I) next_x[i][j] = from[j];
      }
    }
    load(W_ROWS + (idx)(column0 + r) * KP + k, next_w[i]);
  }
};
fetch(0);
for (int k0 = 0; k0 < I; k0 += 32) {
  __syncthreads();
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int r = (threadIdx.x + i * 256) / 8, k = (threadIdx.x + i * 256) % 8 * 4;
    store(xs + r * P + k, next_x[i]);
    store(ws + r * P + k, next_w[i]);
  }
  __syncthreads();
  if (k0 + 32 < I) fetch(k0 + 32);
#pragma unroll
  for (int k = 0; k < 32; k += 4) {
    float a[R][4], b[R][4];
#pragma unroll
    for (int i = 0; i < R; ++i) {
      load(xs + (row + i * 16) * P + k, a[i]);
      load(ws + (column + i * 16) * P + k, b[i]);
    }
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < R; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][j] += a[i][e] * b[j][e];
  }
}
#pragma unroll
for (int j = 0; j < R; ++j) {
  const int n = column0 + column + j * 16;
  const float start = n < N ? bias(n) : 0.f;
#pragma unroll
  for (int i = 0; i < R; ++i)
    if (n < N && row0 + row + i * 16 < M) GIVEN[(row0 + row + i * 16) * N + n] = sum[i][j] + start;
}

//# kTensor
// Four warps, each TM / 2 x TN / 2; three stages of 64 columns of x.
constexpr int P = 72, STAGES = 3, WM = TM / 2, WN = TN / 2;
T* xs = (T*)shared_memory();
T* ws = xs + STAGES * TM * P;
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = lane / 8, g = lane / 4, t = lane % 4;
const int wm0 = warp / 2 * WM, wn0 = warp % 2 * WN;
constexpr int STEPS = (I + 63) / 64;
const auto fetch = [&](int step) {
  const int k0 = step * 64;
  T* to = xs + step % STAGES * TM * P;
  T* to_w = ws + step % STAGES * TN * P;
  for (int i = threadIdx.x; i < TM * 8; i += 128) {
    const int r = i / 8, k = k0 + i % 8 * 8;
    const bool inside = row0 + r < M && k < I;
    if constexpr (VECTORS) {
      copy_async(to + r * P + i % 8 * 8, inside ? X_ROWS + (row0 + r) * I + k : X_ROWS, inside ? 16 : 0);
    } else {
      for (int j = 0; j < 8; ++j) {
        T x = {};
        if (inside && k + j < I) x = X_ROWS[(row0 + r) * I + k + j];
        to[r * P + i % 8 * 8 + j] = x;
      }
    }
  }
  for (int i = threadIdx.x; i < TN * 8; i += 128)
    copy_async(to_w + i / 8 * P + i % 8 * 8, W_ROWS + (idx)(column0 + i / 8) * KP + k0 + i % 8 * 8, 16);
};
float sum[WM / 16][WN / 8][4] = {};
#pragma unroll
for (int s = 0; s < STAGES - 1; ++s) {
  if (s < STEPS) fetch(s);
  copy_commit();
}
for (int i = 0; i < STEPS; ++i) {
  copy_wait<STAGES - 2>();
  __syncthreads();
  if (i + STAGES - 1 < STEPS) fetch(i + STAGES - 1);
  copy_commit();
  const T* a_tile = xs + i % STAGES * TM * P;
  const T* b_tile = ws + i % STAGES * TN * P;
#pragma unroll
  for (int k = 0; k < 64; k += 16) {
    u32 a[WM / 16][4], b[WN / 16][4];
#pragma unroll
    for (int r = 0; r < WM / 16; ++r)
      load_matrix(a[r], a_tile + (wm0 + r * 16 + m % 2 * 8 + lane % 8) * P + k + m / 2 * 8);
#pragma unroll
    for (int c = 0; c < WN / 16; ++c)
      load_matrix(b[c], b_tile + (wn0 + c * 16 + m / 2 * 8 + lane % 8) * P + k + m % 2 * 8);
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
#pragma unroll
for (int c = 0; c < WN / 8; ++c)
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const int n = column0 + wn0 + c * 8 + t * 2 + e;
    const float start = n < N ? bias(n) : 0.f;
#pragma unroll
    for (int r = 0; r < WM / 16; ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const idx at = row0 + wm0 + r * 16 + g + 8 * h;
        if (n < N && at < M) GIVEN[at * N + n] = sum[r][c][2 * h + e] + start;
      }
  }
