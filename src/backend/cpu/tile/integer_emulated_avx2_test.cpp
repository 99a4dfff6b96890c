// SPDX-License-Identifier: Apache-2.0
//
// VNNI's vpdpbusd out of AVX2's instructions, and AMX's tiles of bytes as arrays.
#include <cstdlib>
#include <cstring>

#include "backend/cpu/tile/amx_tiles.h"
#include "backend/cpu/tile/integer_emulation.h"
#include "backend/cpu/vector/stored.h"
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/vector/vec_integer_avx2.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/activation.inc"
//
#include "backend/cpu/tile/integer.inc"
//
#include "backend/cpu/tile/integer_amx.inc"

namespace lathe::cpu {
namespace {

// Bytes 0 and 2 of each lane, then 1 and 3, as 16-bit integers: x unsigned, w signed.
struct EmulatedQuads {
  static IntVec dot(IntVec x, IntVec w, IntVec sum) {
    const IntVec even = _mm256_and_si256(x, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(x, 8);
    sum = idot_pairs(even, _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), sum);
    return idot_pairs(odd, _mm256_srai_epi16(w, 8), sum);
  }
};

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

struct EmulatedTiles {
  static void configure(const TileConfig& config) {
    for (int i = 0; i < 8; ++i) require(config.rows[i] <= 16 && config.row_bytes[i] <= 64);
    state.config = config;
    state.configured = true;
    std::memset(state.tiles, 0xcd, sizeof state.tiles);
  }
  static void release() { state.configured = false; }
  static int rows(int tile) {
    require(state.configured && state.config.rows[tile] > 0);
    return state.config.rows[tile];
  }
  template <int kTile>
  static void zero() {
    rows(kTile);
    std::memset(state.tiles[kTile], 0, sizeof state.tiles[kTile]);
  }
  template <int kTile>
  static void load(const void* at, int64_t stride) {
    for (int r = 0; r < rows(kTile); ++r)
      std::memcpy(state.tiles[kTile][r], static_cast<const std::byte*>(at) + r * stride,
                  state.config.row_bytes[kTile]);
  }
  template <int kTile>
  static void store(void* at, int64_t stride) {
    for (int r = 0; r < rows(kTile); ++r)
      std::memcpy(static_cast<std::byte*>(at) + r * stride, state.tiles[kTile][r],
                  state.config.row_bytes[kTile]);
  }
  template <int kSum, int kA, int kB>
  static void dot_bytes() {
    require(rows(kSum) == rows(kA) && rows(kB) == state.config.row_bytes[kA] / 4);
    for (int r = 0; r < rows(kSum); ++r)
      for (int c = 0; c < state.config.row_bytes[kSum] / 4; ++c) {
        int32_t sum;
        std::memcpy(&sum, &state.tiles[kSum][r][4 * c], 4);
        for (int k = 0; k < state.config.row_bytes[kA]; ++k)
          sum += static_cast<uint8_t>(state.tiles[kA][r][k]) *
                 static_cast<int8_t>(state.tiles[kB][k / 4][4 * c + k % 4]);
        std::memcpy(&state.tiles[kSum][r][4 * c], &sum, 4);
      }
  }
};

}  // namespace

const IntegerTable& emulated_quads() {
  static constexpr IntegerTable table = make_table<EmulatedQuads>("quads", 4);
  return table;
}

const IntegerTable& emulated_tiles() {
  static constexpr IntegerTable table = make_tile_table<EmulatedTiles>("tiles");
  return table;
}

}  // namespace lathe::cpu
