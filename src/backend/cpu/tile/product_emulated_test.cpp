// SPDX-License-Identifier: Apache-2.0
//
// AMX's tile registers in software, so that its kernels are tested on any CPU with AVX512-BF16: what
// TDPBF16PS does by the manual, with sums of even and of odd elements apart, fused multiply-adds, and
// denormals as zero.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "backend/cpu/tile/amx_emulation.h"
#include "backend/cpu/tile/amx_table.h"
#include "backend/cpu/tile/amx_tiles.h"
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/activation.inc"
//
#include "backend/cpu/vector/activation_bf16.inc"
//
#include "backend/cpu/vector/rounding_avx512_bf16.inc"
//
#include "backend/cpu/tile/amx_ahead.inc"
//
#include "backend/cpu/tile/amx_product.inc"

namespace lathe::cpu {
namespace {

struct TileState {
  TileConfig config;
  bool configured = false;
  alignas(64) std::byte tiles[8][16][64];
};
thread_local TileState state;

// What faults on the CPU ends the test here.
void require(bool condition) {
  if (!condition) std::abort();
}

Vec without_denormals(Vec x) {
  const Mask denormal = _mm512_cmp_ps_mask(vabs(x), vset(0x1p-126f), _CMP_LT_OQ);
  return _mm512_mask_and_ps(x, denormal, x, vset(-0.0f));
}

struct EmulatedTiles {
  static void configure(const TileConfig& config) {
    require(config.palette == 1 && config.start_row == 0);
    for (int i = 0; i < 16; ++i)
      require(i < 8 ? config.rows[i] <= 16 && config.row_bytes[i] <= 64 : config.rows[i] == 0);
    state.config = config;
    state.configured = true;
    std::memset(state.tiles, 0, sizeof state.tiles);
  }
  static void release() { state.configured = false; }
  template <int kTile>
  static void zero() {
    require(state.configured && state.config.rows[kTile] > 0);
    std::memset(state.tiles[kTile], 0, sizeof state.tiles[kTile]);
  }
  template <int kTile>
  static void load_once(const void* at, int64_t stride) {
    load<kTile>(at, stride);
  }
  template <int kTile>
  static void load(const void* at, int64_t stride) {
    zero<kTile>();
    for (int r = 0; r < state.config.rows[kTile]; ++r)
      std::memcpy(state.tiles[kTile][r], static_cast<const std::byte*>(at) + r * stride,
                  state.config.row_bytes[kTile]);
  }
  template <int kTile>
  static void store(void* at, int64_t stride) {
    require(state.configured);
    for (int r = 0; r < state.config.rows[kTile]; ++r)
      std::memcpy(static_cast<std::byte*>(at) + r * stride, state.tiles[kTile][r],
                  state.config.row_bytes[kTile]);
  }
  template <int kSum, int kA, int kB>
  static void dot() {
    const TileConfig& c = state.config;
    require(state.configured && c.row_bytes[kA] == 4 * c.rows[kB] && c.row_bytes[kSum] == c.row_bytes[kB] &&
            c.rows[kSum] == c.rows[kA] && c.row_bytes[kB] == 64);
    const auto high = [](Vec x) {  // the odd elements, or an even one after a shift, as FP32
      return without_denormals(_mm512_castsi512_ps(
          _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(static_cast<int>(0xffff0000)))));
    };
    const auto low = [&](Vec x) {
      return high(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 16)));
    };
    for (int r = 0; r < c.rows[kSum]; ++r) {
      Vec even = vzero(), odd = vzero();
      for (int k = 0; k < c.rows[kB]; ++k) {
        float pair;
        std::memcpy(&pair, state.tiles[kA][r] + 4 * k, sizeof pair);
        const Vec a = vset(pair), b = vload(reinterpret_cast<const float*>(state.tiles[kB][k]));
        even = without_denormals(fmadd(low(a), low(b), even));
        odd = without_denormals(fmadd(high(a), high(b), odd));
      }
      auto* sum = reinterpret_cast<float*>(state.tiles[kSum][r]);
      vstore(sum, without_denormals(without_denormals(vload(sum)) + without_denormals(even + odd)));
    }
  }
};

}  // namespace

const AmxTable& emulated_amx_table() {
  return kAmxTable<EmulatedTiles>;
}

}  // namespace lathe::cpu
