// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/vec_integer_avx512.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/tile/integer_table.h"
#include "backend/cpu/vector/stored.h"
//
#include "backend/cpu/vector/activation.inc"
//
#include "backend/cpu/tile/integer.inc"

namespace lathe::cpu {
namespace {

struct Quads {
  static IntVec dot(IntVec x, IntVec w, IntVec sum) { return _mm512_dpbusd_epi32(sum, x, w); }
};

// Sixteen channels of four taps, turned around so that a lane has the four bytes of its channel.
struct QuadOfTaps {
  static constexpr int64_t kTaps = 4;
  static __m128i load(const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
  static IntVec gather(const uint8_t* const* taps, int64_t channel) {
    IntVec x = _mm512_castsi128_si512(load(taps[0] + channel));
    x = _mm512_inserti32x4(x, load(taps[1] + channel), 1);
    x = _mm512_inserti32x4(x, load(taps[2] + channel), 2);
    x = _mm512_inserti32x4(x, load(taps[3] + channel), 3);
    // Four channels of all taps in each 128 bits, and then the bytes of each channel.
    const IntVec fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const IntVec bytes =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(fours, x), bytes);
  }
  static IntVec dot(IntVec x, IntVec w, IntVec sum) { return _mm512_dpbusd_epi32(sum, x, w); }
  static IntVec add(const uint8_t* const* taps, int64_t channel, const std::byte* weights, IntVec sum) {
    return dot(gather(taps, channel), iload(weights), sum);
  }
};

constexpr int64_t kBlock = 64;
constexpr int kBlockPixels = 4;

// A column of four taps for 64 channels: vector j has channels 4 j to 4 j + 3 of each 16.
struct Column {
  IntVec quads[4];

  Column(const uint8_t* const* taps, int64_t channel) {
    const IntVec a = iload(taps[0] + channel), b = iload(taps[1] + channel), c = iload(taps[2] + channel),
                 d = iload(taps[3] + channel);
    const IntVec low[2] = {_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d)},
                 high[2] = {_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d)};
    quads[0] = _mm512_unpacklo_epi16(low[0], low[1]);
    quads[1] = _mm512_unpackhi_epi16(low[0], low[1]);
    quads[2] = _mm512_unpacklo_epi16(high[0], high[1]);
    quads[3] = _mm512_unpackhi_epi16(high[0], high[1]);
  }
};

// The bytes of sums whose vectors have their channels as Column has them: packing puts them in order.
void store_block(const IntegerOutput& o, int64_t channel, const IntVec* sums, uint8_t* to) {
  const ByteTail& t = *o.bytes;
  IntVec steps[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const int64_t c = channel + j * kWidth;
    const Vec x = fmadd(to_floats(sums[j]), vload(o.scale + c), vload(o.bias + c));
    steps[j] = _mm512_cvtps_epi32(vmin(vset(t.high), vmax(vset(t.low), x)));
  }
  const IntVec zero = iset16(t.zero);
  const IntVec first = _mm512_adds_epi16(_mm512_packs_epi32(steps[0], steps[1]), zero),
               second = _mm512_adds_epi16(_mm512_packs_epi32(steps[2], steps[3]), zero);
  istore(to, _mm512_packus_epi16(first, second));
}

// kBlockPixels windows of 64 channels. Instructions for a pixel and 16 channels, 3x3 with steps of one: 6 to
// turn columns around, 3 to multiply, 7 to finish; 16 channels at a time have 25.
template <int kKernel, int kStride>
void depthwise_block(const DepthwiseRow& row, int64_t first, int64_t channel) {
  constexpr int kColumns = (kBlockPixels - 1) * kStride + kKernel;
  const int64_t vector_bytes = row.taps / QuadOfTaps::kTaps * kKernel * kWidth * 4;
  const std::byte* weights = row.weights + channel / kWidth * vector_bytes;
  IntVec sums[kBlockPixels][4];
#pragma GCC unroll 4
  for (int p = 0; p < kBlockPixels; ++p)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sums[p][j] = iload(row.zero_products + channel + j * kWidth);
  for (int64_t t = 0; t < row.taps; t += QuadOfTaps::kTaps, weights += kKernel * kWidth * 4) {
    const uint8_t* const* taps = row.tap_addresses + first * kStride * row.taps + t;
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c, taps += row.taps) {
      const Column x(taps, channel);
#pragma GCC unroll 8
      for (int k = 0; k < kKernel; ++k) {
        if (c < k || (c - k) % kStride != 0 || (c - k) / kStride >= kBlockPixels) continue;
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          IntVec& sum = sums[(c - k) / kStride][j];
          sum = Quads::dot(x.quads[j], iload(weights + j * vector_bytes + k * kWidth * 4), sum);
        }
      }
    }
  }
  const IntegerOutput& o = row.output;
  auto* to = static_cast<uint8_t*>(o.out) + first * o.out_stride + channel;
#pragma GCC unroll 4
  for (int p = 0; p < kBlockPixels; ++p, to += o.out_stride)
    if (first + p < o.rows) store_block(o, channel, sums[p], to);
}

using BlockFunction = void (*)(const DepthwiseRow&, int64_t, int64_t);

// Of a step that shares columns.
BlockFunction block_function(const DepthwiseStep& step) {
  const bool one = step.stride == 1;
  if (step.kernel == 3) return one ? depthwise_block<3, 1> : depthwise_block<3, 2>;
  if (step.kernel == 5) return one ? depthwise_block<5, 1> : depthwise_block<5, 2>;
  return one ? depthwise_block<7, 1> : depthwise_block<7, 2>;
}

void depthwise_in_blocks(const DepthwiseRow& row) {
  if (row.in_blocks > 0) {
    const BlockFunction block = block_function(row.shared);
    for (int64_t c = 0; c < row.in_blocks; c += kBlock)
      for (int64_t p = 0; p < row.output.rows; p += kBlockPixels) block(row, p, c);
  }
  if (row.in_blocks < row.output.columns) depthwise_by_columns<QuadOfTaps>(row);
}

constexpr IntegerTable make_vnni_table() {
  IntegerTable table = make_table<Quads>("avx512_vnni", 4);
  table.depthwise = depthwise_in_blocks;
  table.depthwise_block = kBlock;
  table.depthwise_taps = QuadOfTaps::kTaps;
  table.shares_columns = shares_columns<QuadOfTaps>;
  return table;
}

}  // namespace

const IntegerTable& integer_table_avx512_vnni() {
  static constexpr IntegerTable table = make_vnni_table();
  return table;
}

}  // namespace lathe::cpu
