// SPDX-License-Identifier: Apache-2.0
//
// Products of BF16 tiles: four independent sums, operands stay in their tiles. To be called where CPU and
// system have AMX and the process has permission for it (cpu::read_cpu_info() asks).
#include "backend/cpu/tile/amx_tiles.h"
#include "ceiling_kernels.h"

namespace lathe::bench {

double dot_bf16_amx(int64_t rounds) {
  using cpu::AmxTiles;
  cpu::TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.set(tile, 16, 64);
  AmxTiles::configure(config);
  for (int64_t r = 0; r < rounds; ++r) {
    AmxTiles::dot<0, 6, 4>();
    AmxTiles::dot<1, 6, 5>();
    AmxTiles::dot<2, 7, 4>();
    AmxTiles::dot<3, 7, 5>();
  }
  AmxTiles::release();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 32 * 2;
}

}  // namespace lathe::bench
