// SPDX-License-Identifier: Apache-2.0
//
// A few rows of attention, whose keys are shared out over blocks (codegen_split_attention.cpp). Parts of the
// kernels' bodies.
//
// The generator writes in front:
//   WARPS, TILE           of a block, and keys that a warp takes at a time
//   D, DV                 widths of keys and values
//   CHUNKS, SIXTY_FOURS, EIGHTS   32s of D, 64s of DV, eights of TILE
//   IN_FLIGHT, TOGETHER   sixteens of values and eights of keys that are under way together
//   SPLITS, SLICE, VECTORS   blocks that share a row's keys, vectors of the result of each, and of all
//   QUERIES, SHARING, ROWS   rows of a head, heads of a key head, and both together
//   QUERY, KEY, VALUE, KEYS, SCALE, *_BATCH, *_HEAD, *_ROW, masked(x, row, at), PAIR, MULTIPLY   operands
// and puts in place: ARRIVE, FINISH, and the vectors that are put together: FIRST, END, STRIDE.

//# kOperands
// The block's rows, keys and values.
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
const idx shared_head = blockIdx.x % SHARED_HEADS, b = blockIdx.x / SHARED_HEADS;
const idx row = g % QUERIES, h = shared_head * SHARING + min((idx)g / QUERIES, (idx)SHARING - 1);
const bool is_row = g < SHARING * QUERIES;
const auto* query = QUERY + b * Q_BATCH + h * Q_HEAD + row * Q_ROW;
const auto* key = KEY + b * K_BATCH + shared_head * K_HEAD;
const auto* value = VALUE + b * V_BATCH + shared_head * V_HEAD;

//# kParts
// A block's part of the keys, TILE at a time for each warp. `top` is in units of log 2.
const idx chunk = (KEYS + SPLITS * TILE - 1) / (SPLITS * TILE) * TILE;
const idx begin = blockIdx.z * chunk, end = min(begin + chunk, (idx)KEYS);
float* warp_tops = (float*)shared_memory();
float* warp_sums = warp_tops + WARPS * 8;
float* parts = warp_sums + WARPS * 8;
float* received = parts + WARPS * ROWS * DV;
ARRIVE;
wait_for_previous_kernel();
u32 q[CHUNKS][4];
#pragma unroll
for (int i = 0; i < CHUNKS; ++i) {
  q[i][0] = q[i][1] = q[i][2] = q[i][3] = 0;
  if (is_row && i * 32 + t * 8 < D) load_early(query + i * 32 + t * 8, q[i]);
}
// Rows g and g + 8 of a product of values are columns 8 g + 2 j and the next one of 64, its columns the rows.
float top = -infinity(), sum = 0, out[SIXTY_FOURS][4][4] = {};
for (idx k0 = begin + warp * TILE; k0 < end; k0 += WARPS * TILE) {
  float score[EIGHTS][4] = {};
  u32 v[IN_FLIGHT][4][SIXTY_FOURS][4];
  // Sixteen keys: of both halves two that follow one another.
  const auto fetch_values = [&](int sixteen, u32(&to)[4][SIXTY_FOURS][4]) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const auto* from = value + min(k0 + sixteen * 16 + n / 2 * 8 + t * 2 + n % 2, end - 1) * V_ROW;
#pragma unroll
      for (int i = 0; i < SIXTY_FOURS; ++i) {
        to[n][i][0] = to[n][i][1] = to[n][i][2] = to[n][i][3] = 0;
        if (i * 64 + g * 8 < DV) load_early(from + i * 64 + g * 8, to[n][i]);
      }
    }
  };
#pragma unroll
  for (int j0 = 0; j0 < EIGHTS; j0 += TOGETHER) {
    u32 k[TOGETHER][CHUNKS][4];
#pragma unroll
    for (int j = 0; j < TOGETHER; ++j) {
      const auto* from = key + min(k0 + (j0 + j) * 8 + g, end - 1) * K_ROW;
#pragma unroll
      for (int i = 0; i < CHUNKS; ++i) {
        k[j][i][0] = k[j][i][1] = k[j][i][2] = k[j][i][3] = 0;
        if (i * 32 + t * 8 < D) load_early(from + i * 32 + t * 8, k[j][i]);
      }
    }
    if (j0 + TOGETHER == EIGHTS)
#pragma unroll
      for (int n = 0; n < IN_FLIGHT; ++n) fetch_values(n, v[n]);
    __syncwarp();  // or the compiler moves loads behind products
#pragma unroll
    for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
      for (int i = 0; i < CHUNKS; ++i) {
        const u32 first[4] = {q[i][0], 0, q[i][1], 0}, second[4] = {q[i][2], 0, q[i][3], 0};
        MULTIPLY(score[j0 + j], first, k[j][i][0], k[j][i][1]);
        MULTIPLY(score[j0 + j], second, k[j][i][2], k[j][i][3]);
      }
  }
  float next = top;
#pragma unroll
  for (int j = 0; j < EIGHTS; ++j)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const idx at = k0 + j * 8 + t * 2 + c;
      float& x = score[j][c];
      x = is_row && at < end ? masked(x * SCALE, row, at) : -infinity();
      next = fmaxf(next, x);
    }
  next = fmaxf(next, shuffle_xor(next, 1));
  next = fmaxf(next, shuffle_xor(next, 2));
  const float base = next == -infinity() ? 0.f : next, shrink = power_of_two(top - base);
  top = next;
  sum *= shrink;
#pragma unroll
  for (int j = 0; j < EIGHTS; ++j)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      sum += score[j][c] = power_of_two(score[j][c] - base);
    }
  if (k0 != begin + warp * TILE) {
    const float factors[2] = {shuffle(shrink, t * 8), shuffle(shrink, t * 8 + 4)};
#pragma unroll
    for (int i = 0; i < SIXTY_FOURS; ++i)
#pragma unroll
      for (int j = 0; j < 16; ++j) out[i][j / 4][j % 4] *= factors[j % 2];
  }
// Keys behind the end have the probability 0.
#pragma unroll
  for (int sixteen = 0; sixteen < EIGHTS / 2; ++sixteen) {
    u32(&w)[4][SIXTY_FOURS][4] = v[sixteen < IN_FLIGHT ? sixteen : 0];
    if (sixteen >= IN_FLIGHT) fetch_values(sixteen, w);
    const u32 p[2] = {PAIR(score[2 * sixteen][0], score[2 * sixteen][1]),
                      PAIR(score[2 * sixteen + 1][0], score[2 * sixteen + 1][1])};
#pragma unroll
    for (int i = 0; i < SIXTY_FOURS; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const u32 columns[4] = {
            byte_permute(w[0][i][j], w[1][i][j], 0x5410), byte_permute(w[0][i][j], w[1][i][j], 0x7632),
            byte_permute(w[2][i][j], w[3][i][j], 0x5410), byte_permute(w[2][i][j], w[3][i][j], 0x7632)};
        MULTIPLY(out[i][j], columns, p[0], p[1]);
      }
  }
}
sum += shuffle_xor(sum, 1);
sum += shuffle_xor(sum, 2);
// The warps' parts become one.
if (t == 0) {
  warp_tops[warp * 8 + g] = top;
  warp_sums[warp * 8 + g] = sum;
}
#pragma unroll
for (int i = 0; i < SIXTY_FOURS; ++i)
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    if (t * 2 + e >= ROWS || i * 64 + g * 8 >= DV) continue;
    float* to = parts + (warp * ROWS + t * 2 + e) * DV + i * 64 + g * 8;
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      const float four[4] = {out[i][j][e], out[i][j][2 + e], out[i][j + 1][e], out[i][j + 1][2 + e]};
      store(to + j * 2, four);
    }
  }
__syncthreads();
// The largest score of a row, and its sum.
const auto merge_row = [&](int r, float (&both)[2]) {
  both[0] = -infinity();
  both[1] = 0;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) both[0] = fmaxf(both[0], warp_tops[w * 8 + r]);
  const float from = both[0] == -infinity() ? 0.f : both[0];
#pragma unroll
  for (int w = 0; w < WARPS; ++w) both[1] += power_of_two(warp_tops[w * 8 + r] - from) * warp_sums[w * 8 + r];
};
// Four columns of a row: vector i of the part.
const auto merge_vector = [&](int i, float (&x)[4]) {
  const int r = i / (DV / 4);
  float all = -infinity();
#pragma unroll
  for (int w = 0; w < WARPS; ++w) all = fmaxf(all, warp_tops[w * 8 + r]);
  const float from = all == -infinity() ? 0.f : all;
  x[0] = x[1] = x[2] = x[3] = 0;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) {
    const float f = power_of_two(warp_tops[w * 8 + r] - from);
    float part[4];
    load(parts + w * ROWS * DV + i * 4, part);
#pragma unroll
    for (int c = 0; c < 4; ++c) x[c] += f * part[c];
  }
};

//# kPush
// To the block of the cluster that has the slice, and every row's numbers to all.
float* numbers = received + SPLITS * SLICE * 4;
cluster_wait();
for (int i = threadIdx.x; i < VECTORS; i += WARPS * 32) {
  float x[4];
  merge_vector(i, x);
  store_shared_of(i / SLICE, received + (blockIdx.z * SLICE + i % SLICE) * 4, x);
}
for (int i = threadIdx.x; i < ROWS * SPLITS; i += WARPS * 32) {
  float both[2];
  merge_row(i / SPLITS, both);
  store_shared_of(i % SPLITS, numbers + (blockIdx.z * ROWS + i / SPLITS) * 2, both);
}
cluster_arrive();
cluster_wait();
const int first = blockIdx.z * SLICE;
#define PART(s, i) received + (s * SLICE + i - first) * 4
#define TOP(s, r) numbers[(s * ROWS + r) * 2]
#define SUM(s, r) numbers[(s * ROWS + r) * 2 + 1]

//# kStore
float* to = SCRATCH + ((size_t)blockIdx.x * SPLITS + blockIdx.z) * RECORD;
for (int i = threadIdx.x; i < VECTORS; i += WARPS * 32) {
  float x[4];
  merge_vector(i, x);
  store(to + i * 4, x);
}
for (int r = threadIdx.x; r < ROWS; r += WARPS * 32) {
  float both[2];
  merge_row(r, both);
  store(to + ROWS * DV + r * 2, both);
}

//# kTogether
// Vectors from the parts of all blocks: from FIRST on, in steps of the threads.
for (int i = FIRST + threadIdx.x; i < END; i += STRIDE) {
  const int r = i / (DV / 4), column = i % (DV / 4) * 4;
  float all = -infinity(), total = 0, v[4] = {}, x[SPLITS][4];
#pragma unroll
  for (int s = 0; s < SPLITS; ++s) {
    load(PART(s, i), x[s]);
    all = fmaxf(all, TOP(s, r));
  }
  const float from = all == -infinity() ? 0.f : all;
#pragma unroll
  for (int s = 0; s < SPLITS; ++s) {
    const float f = power_of_two(TOP(s, r) - from);
    total += f * SUM(s, r);
#pragma unroll
    for (int c = 0; c < 4; ++c) v[c] += f * x[s][c];
  }
  const float factor = total == 0 ? 0.f : 1.f / total;
#pragma unroll
  for (int c = 0; c < 4; ++c) v[c] *= factor;
  const idx head = shared_head * SHARING + r / QUERIES,
            at = b * Y_BATCH + head * Y_HEAD + r % QUERIES * Y_ROW + column;
  if (r < SHARING * QUERIES) FINISH;
}
