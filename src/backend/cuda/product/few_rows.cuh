// SPDX-License-Identifier: Apache-2.0
//
// Products with few rows of x, whose weights are read once (codegen_few_rows.cpp): the loop over a warp's
// steps and the end of a block, parts of the kernel's body.
//
// The generator writes in front:
//   ROWS, GROUPS          rows of x of a block, and eights of them
//   TILES, WARPS          strips of 16 columns of a block, and warps that share a strip's K
//   STEPS, AHEAD          of 64 of K, and how many are under way
//   LOADS, NUMBERS        loads of 16 bytes of weights in a step, and words of scales and zero points
//   K, V, VECTORS         depth; results that are stored at once, and how many of these a row has
//   PAIR(w, i, zero)      weights 2 i and 2 i + 1 as 16-bit floats
//   MULTIPLY, PACKED_WORDS, LEFT, RESULT, RESULT_ROWS, RESULT_COLUMNS, place(row, column), tail   operands
// and puts in place: MATRIX_TILE, FETCH_NUMBERS, ONCE, OPEN_BLOCK, SUMS, CLOSE_BLOCK.

//# kHardware
// What the hardware has for it: loads of weights, which are read once and leave no trace in L1, and of x,
// which stay in front of the products; and differences of pairs of 16-bit floats. (Loads of what is said to
// be constant would wait for the previous kernel: the compiler moves the wait in front of them.)
DEV void load_once(const void* p, u32* w) {
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(p));
}
DEV u32 subtract_f16x2(u32 a, u32 b) {
  u32 d;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
DEV u32 subtract_bf16x2(u32 a, u32 b) {
  u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(b), "r"(0xbf80bf80u), "r"(a));
  return d;
}

//# kMultiply
// The loop over a warp's steps: loads of AHEAD steps are under way.
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
const int tile = warp / WARPS, part = warp % WARPS;
const idx column0 = blockIdx.x * (TILES * 16), row0 = blockIdx.y * ROWS;
const bool there = column0 + tile * 16 < RESULT_COLUMNS;
const u32* weights =
    PACKED_WORDS + (MATRIX_TILE(blockIdx.x * TILES + tile)) * (size_t)(STEPS * LOADS * 128) + lane * 4;
u32 words[AHEAD][LOADS * 4], block_numbers[AHEAD][2][NUMBERS];
const auto fetch_weights = [&](int step, u32 (&to)[LOADS * 4], u32 (&to_numbers)[2][NUMBERS]) {
  if (there && step < STEPS) {
#pragma unroll
    for (int l = 0; l < LOADS; ++l) load_once(weights + step * (LOADS * 128) + l * 128, to + l * 4);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int k = step * 64 + h * 32;
      u32(&numbers)[NUMBERS] = to_numbers[h];
      FETCH_NUMBERS;
    }
  } else {
#pragma unroll
    for (int i = 0; i < LOADS * 4; ++i) to[i] = 0;
#pragma unroll
    for (int i = 0; i < 2 * NUMBERS; ++i) to_numbers[i / NUMBERS][i % NUMBERS] = 0;
  }
};
#pragma unroll
for (int a = 0; a < AHEAD; ++a) fetch_weights(part + a * WARPS, words[a], block_numbers[a]);
ONCE;
wait_for_operands();
// The epilogue's operands come with x, unless they are still being made.
const idx own_row = row0 + threadIdx.x / VECTORS, own_column = column0 + threadIdx.x % VECTORS * V;
idx own = -1;
decltype(tail)::Operands own_operands;
if (!is_late && threadIdx.x < ROWS * VECTORS) own = place(own_row, own_column);
if (own >= 0) tail.fetch(own, own_column, own_operands);
float sums[2][GROUPS][4] = {};  // of both halves of a step: half as many products wait for one another
if (there) {
  for (int first = part; first < STEPS; first += AHEAD * WARPS) {
    u32 x[AHEAD][GROUPS][2][4];
#pragma unroll
    for (int a = 0; a < AHEAD; ++a)
#pragma unroll
      for (int r = 0; r < GROUPS; ++r)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const idx row = row0 + r * 8 + g;
          const int k = (first + a * WARPS) * 64 + h * 32 + t * 8;
          if (row < RESULT_ROWS && k < K)
            load_early(LEFT + row * K + k, x[a][r][h]);
          else
            x[a][r][h][0] = x[a][r][h][1] = x[a][r][h][2] = x[a][r][h][3] = 0;
        }
    __syncwarp();  // or the compiler moves loads behind products
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const u32* w = words[a] + h * (LOADS * 2);
        float(&sum)[GROUPS][4] = sums[h];
        OPEN_BLOCK;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const u32 left[4] = {PAIR(w, 2 * j, zero[0]), PAIR((w + 1), 2 * j, zero[1]),
                               PAIR(w, 2 * j + 1, zero[0]), PAIR((w + 1), 2 * j + 1, zero[1])};
#pragma unroll
          for (int r = 0; r < GROUPS; ++r) MULTIPLY(SUMS[r], left, x[a][r][h][2 * j], x[a][r][h][2 * j + 1]);
        }
        CLOSE_BLOCK;
      }
      fetch_weights(first + (a + AHEAD) * WARPS, words[a], block_numbers[a]);
    }
  }
}
float sum[GROUPS][4];
#pragma unroll
for (int r = 0; r < GROUPS; ++r)
#pragma unroll
  for (int e = 0; e < 4; ++e) sum[r][e] = sums[0][r][e] + sums[1][r][e];

//# kTogether
// Sums of a warp are those of its lanes' columns g and g + 8 with rows 2 t and 2 t + 1 of x.
float* strip = (float*)shared_memory();
#pragma unroll
for (int r = 0; r < GROUPS; ++r)
#pragma unroll
  for (int e = 0; e < 4; ++e)
    strip[((part * ROWS + r * 8 + t * 2 + e % 2) * TILES + tile) * 16 + g + e / 2 * 8] = sum[r][e];
__syncthreads();
wait_for_results();
for (int i = threadIdx.x; i < ROWS * VECTORS; i += 32 * TILES * WARPS) {
  const int row = i / VECTORS, column = i % VECTORS * V;
  const idx at = place(row0 + row, column0 + column);
  if (at < 0) continue;
  if (own < 0 || i >= 32 * TILES * WARPS) tail.fetch(at, column0 + column, own_operands);
  float v[V] = {};
#pragma unroll
  for (int p = 0; p < WARPS; ++p)
#pragma unroll
    for (int j = 0; j < V; ++j) v[j] += strip[(p * ROWS + row) * (TILES * 16) + column + j];
  tail.apply(own_operands, v);
  store(RESULT + at, v);
}
