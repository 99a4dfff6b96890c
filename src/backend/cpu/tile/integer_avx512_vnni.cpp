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

constexpr IntegerTable make_vnni_table() {
  IntegerTable table = make_table<Quads>("avx512_vnni", 4);
  table.depthwise = depthwise_by_columns<QuadOfTaps>;
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
