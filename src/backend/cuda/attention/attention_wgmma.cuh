// SPDX-License-Identifier: Apache-2.0
//
// Attention for Hopper where a row's scores with all keys are one product and stay in registers: heads of 64
// elements, 64 rows for each warpgroup; behind attention.cuh. Queries, keys and values come by the copy
// engine, in rows of 128 swizzled bytes.
//
// The generator writes in front:
//   GROUPS                     warpgroups
//   KEYS                       keys, padded to 16
//   KNOWN_KEYS                 keys, or 0 where that is known only at run time
//   MASK                       how scores are masked (attention.cuh)
//   V                          results that finish() takes, 1 or 8
//   T                          the type in 16 bits
//   MULTIPLY_TILE(sums, a, b)  64 rows of queries times all keys
//   MULTIPLY_ROWS(sums, a, b)  64 rows of probabilities times 16 values
//   PACK(x, y)                 two numbers in 16 bits

//# kAttentionWgmma
// Where a head lies in the tensor map of an operand.
struct HeadAt {
  int column, outer;
};

// Whole vectors leave through the memory that held the queries: sixteen rows of a warp, 16 bytes at a time,
// in an order that has them in different banks.
template <class Finish>
DEV void finish_vectors(char* strip, const float (&out)[32], const float (&factor)[2], idx row0, idx rows,
                        Finish finish) {
  const int lane = threadIdx.x % 32, r = lane % 16;
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    u32 pair[4];
#pragma unroll
    for (int h = 0; h < 4; ++h)
      pair[h] = PACK(out[4 * j + 2 * h] * factor[h % 2], out[4 * j + 2 * h + 1] * factor[h % 2]);
    store_matrix(strip + r * 128 + ((j + lane / 16) ^ r % 8) * 16, pair);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int n = i * 32 + lane, row = n / 8, column = n % 8;
    float v[8];
    load((const T*)(strip + row * 128 + (column ^ row % 8) * 16), v);
    if (row0 + row < rows) finish(row0 + row, column * 8, v);
  }
}
template <class Finish>
DEV void finish_singly(const float (&out)[32], const float (&factor)[2], idx row0, idx rows, Finish finish) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const idx row = row0 + lane / 4 + half * 8;
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const float v[1] = {out[4 * j + 2 * half + c] * factor[half]};
        if (row < rows) finish(row, 8 * j + 2 * (lane % 4) + c, v);
      }
  }
}

// The block's rows from q0 on, of `rows` in all, with all `keys`.
template <class Masked, class Finish>
DEV void attend_whole_rows(const TensorMap* query, const TensorMap* key, const TensorMap* value,
                           const HeadAt& query_head, const HeadAt& key_head, idx q0, idx rows, idx keys,
                           Masked masked, Finish finish) {
  char* qs = aligned_shared_memory();
  char *ks = qs + GROUPS * 8192, *vs = ks + KEYS * 128;
  u64* arrived = (u64*)(vs + KEYS * 128);  // queries and keys, then values
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  if (threadIdx.x == 0) {
    barrier_init(arrived, 1);
    barrier_init(arrived + 1, 1);
    barriers_ready();
    wait_for_previous_kernel();
    stored_before_copies();
    barrier_expect(arrived, GROUPS * 8192 + KEYS * 128);
    for (int i = 0; i < GROUPS; ++i)
      copy_box(qs + i * 8192, query, query_head.column, q0 + 64 * i, query_head.outer, arrived);
    copy_box(ks, key, key_head.column, 0, key_head.outer, arrived);
    barrier_expect(arrived + 1, KEYS * 128);
    copy_box(vs, value, key_head.column, 0, key_head.outer, arrived + 1);
  }
  wait_for_previous_kernel();
  __syncthreads();
  // A mask that is the same for all rows is read while the operands are under way.
  float bias[KEYS / 8][2];
  if constexpr (MASK == MASK_OF_KEYS) {
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) bias[j][c] = masked(0.f, 0, 8 * j + 2 * t + c);
  }
  const auto scaled = [&](float x, idx row, int j, int c) {
    const idx at = 8 * j + 2 * t + c;
    if constexpr (MASK == MASK_OF_KEYS) return x * SCALE + bias[j][c];
    if constexpr (MASK == MASK_OF_SCORES) return masked(x * SCALE, row, at);
    return 8 * j + 8 <= KNOWN_KEYS || at < keys ? x * SCALE : -infinity();
  };
  barrier_wait(arrived, 0);
  float score[KEYS / 2] = {};
  multiply_begin();
#pragma unroll
  for (int k = 0; k < 4; ++k)
    MULTIPLY_TILE(score, tile_operand(qs + warp / 4 * 8192) + 2 * k, tile_operand(ks) + 2 * k);
  multiply_commit();
  multiply_wait<0>();
  multiply_done(score);
  // A thread has parts of two rows: of row 16 warp + g + 8 half the keys 8 j + 2 t + c in score[4 j + 2 half
  // + c].
  float sum[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float next = -infinity();
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& x = score[4 * j + 2 * half + c];
        x = scaled(x, q0 + warp * 16 + g + half * 8, j, c);
        next = fmaxf(next, x);
      }
    const float top = row_max(next), base = top == -infinity() ? 0.f : top;
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& x = score[4 * j + 2 * half + c];
        x = power_of_two(x - base);
        sum[half] += x;
      }
  }
  // The scores already have the layout of a left operand in registers.
  u32 part[KEYS / 16][4];
#pragma unroll
  for (int i = 0; i < KEYS / 16; ++i)
#pragma unroll
    for (int r = 0; r < 4; ++r) part[i][r] = PACK(score[8 * i + 2 * r], score[8 * i + 2 * r + 1]);
  barrier_wait(arrived + 1, 0);
  float out[32] = {};
  multiply_begin();
#pragma unroll
  for (int i = 0; i < KEYS / 16; ++i) MULTIPLY_ROWS(out, part[i], tile_operand(vs) + 128 * i);
  multiply_commit();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] = row_sum(sum[half]);
    sum[half] = sum[half] == 0 ? 0.f : 1.f / sum[half];
  }
  multiply_wait<0>();
  multiply_done(out);
  const idx row0 = q0 + warp * 16;
  if constexpr (V == 8)
    finish_vectors(qs + warp * 2048, out, sum, row0, rows, finish);
  else
    finish_singly(out, sum, row0, rows, finish);
}
