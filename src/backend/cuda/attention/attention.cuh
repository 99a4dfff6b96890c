// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of codegen_attention.cpp share; in front of attention_fma.cuh, attention_mma.cuh and
// attention_wgmma.cuh. Their scores are in units of log 2: SCALE, which the generator writes, has that
// factor. masked(score, row, key) is the score with the mask, or -infinity; finish(row, column, v) takes
// results.

//# kAttention
// The rows of one head.
template <class T> struct Rows {
  const T* first;
  idx count, stride;
};
template <class T> DEV Rows<T> rows_of(const T* first, idx count, idx stride) {
  return {first, count, stride};
}

// How scores are masked: not at all; alike in all rows, so that a tile reads its mask once; by mask_pair(row,
// key, m), which reads the mask of two keys at once; by masked(), one by one.
constexpr int NO_MASK = 0, MASK_OF_KEYS = 1, MASK_OF_PAIRS = 2, MASK_OF_SCORES = 3;
// In place of mask_pair where there is none.
struct NoMaskPair {};

// In the layout of tensor cores the four lanes 4 g to 4 g + 3 have a row.
DEV float row_max(float x) {
  x = fmaxf(x, shuffle_xor(x, 1));
  return fmaxf(x, shuffle_xor(x, 2));
}
DEV float row_sum(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}
