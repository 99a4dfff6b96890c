// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution of FP16 for AVX512-FP16, with results in BF16, and what makes its input of an AMX
// product's sums: the inside of a DepthwiseBlock. A sum of taps rounds to 2^-11 at each, which is less than
// the 2^-9 of its result.
//
// Instructions for 32 channels of a pixel (a core starts two in a cycle): expansion 7 and SiLU's 13, where
// FP32 takes 28; a 3x3 window with stride 1 9 multiply-adds and 10 / 8 * 3 loads, where FP32 takes twice
// both; to BF16 6.
#include "backend/cpu/vector/vec_avx512_fp16.h"
//
#include "backend/cpu/conv/depthwise_fp16_table.h"
#include "backend/cpu/tile/amx_table.h"

namespace lathe::cpu {
namespace {

// x / (1 + 2^t), t = factor x. Beyond |t| = 32 the sigmoid is 0 or 1 in FP16. Adding 1.5 * 2^10 rounds to an
// integer.
inline Vec vsilu(Vec x, Vec factor) {
  const Vec t = vmin(vset(32), vmax(vset(-32), x * factor));
  const Vec n = (t + vset(1536)) - vset(1536), r = t - n;
  Vec p = vset(5.517165765e-02f);  // 2^r on [-0.5, 0.5], error 1e-4
  p = fmadd(p, r, vset(2.426111213e-01f));
  p = fmadd(p, r, vset(6.932609876e-01f));
  p = fmadd(p, r, vset(1));
  return x * _mm512_rcp_ph(vset(1) + _mm512_scalef_ph(p, n));
}

template <Activation kActivation>
inline Vec activate(const RegisterTail& tail, Vec x) {
  if constexpr (kActivation == Activation::Silu) return vsilu(x, vset(-1.44269504f * tail.alpha));
  if constexpr (kActivation == Activation::HardSwish)
    return x * vmin(vset(1), vmax(vzero(), fmadd(x, vset(1.0f / 6), vset(0.5f))));
  // GELU and rounding to a grid are refused (depthwise_block.cpp).
  if constexpr (kActivation == Activation::GeluErf || kActivation == Activation::GeluTanh ||
                kActivation == Activation::RoundTo)
    __builtin_trap();
  return vmin(vset(tail.high), vmax(vset(tail.low), x));
}
template <Activation kActivation>
inline Vec activate_bf16(const RegisterTail& tail, Vec x) {
  return activate<kActivation>(tail, x);
}

struct Rounding {
  static __m512i round(Vec x) {
    const __m512i bits = _mm512_castph_si512(x);
    const __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(bits)),
                 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(bits, 1));
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  }
  static void store(uint16_t* p, Vec x) { _mm512_storeu_si512(p, round(x)); }
  static void store_two(uint16_t* p, Vec x, uint16_t* q, Vec y) {
    store(p, x);
    store(q, y);
  }
  static void storen(uint16_t* p, Vec x, int64_t lanes) {
    _mm512_mask_storeu_epi16(p, first_lanes(lanes), round(x));
  }
};

}  // namespace
}  // namespace lathe::cpu

#include "backend/cpu/conv/depthwise_window.inc"

namespace lathe::cpu {
namespace {

void rows(const DepthwiseRows& d) {
  rows_of<LoadLanes, kDensePixel>(d);
}

template <Activation kActivation, bool kTracked>
void finish_rows(const AmxProduct& product, const float* sums, int64_t row, int64_t count, int64_t columns) {
  const RegisterTail tail = product.tail;
  const auto second = static_cast<__mmask16>(columns > kWidth / 2 ? 0xffff : 0);
  auto* largest = static_cast<Lane*>(product.finish_state);
  auto* out = static_cast<Lane*>(product.out) + row * product.out_stride;
  Vec most = kTracked ? vload(largest) : vzero();
  for (int64_t r = 0; r < count; ++r, sums += AmxProduct::kPanel, out += product.out_stride) {
    const auto low = _mm512_cvtps_ph(_mm512_loadu_ps(sums), _MM_FROUND_TO_NEAREST_INT),
               high = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(second, sums + kWidth / 2),
                                      _MM_FROUND_TO_NEAREST_INT);
    const Vec both = _mm512_castsi512_ph(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
    const Vec x = activate<kActivation>(tail, both);
    vstore(out, x);
    if constexpr (kTracked) most = vmax(x, most);  // NaN is passed over
  }
  if constexpr (kTracked) vstore(largest, most);
}

AmxProduct::FinishRows expansion(const RegisterTail& tail, bool tracked) {
  switch (tail.activation) {
    case Activation::Silu:
    case Activation::SiluByDivision:
      return finish_rows<Activation::Silu, true>;
    case Activation::HardSwish:
      return finish_rows<Activation::HardSwish, true>;
    case Activation::Clamp:
      return tracked ? finish_rows<Activation::Clamp, true> : finish_rows<Activation::Clamp, false>;
    case Activation::GeluErf:
    case Activation::GeluTanh:
    case Activation::RoundTo:
      break;
  }
  return nullptr;
}

constexpr DepthwiseFp16Table kTable = {.window = {.vector = kWidth, .lane_bytes = sizeof(Lane), .rows = rows},
                                       .expansion = expansion};

}  // namespace

const DepthwiseFp16Table& depthwise_fp16_table() {
  return kTable;
}

}  // namespace lathe::cpu
