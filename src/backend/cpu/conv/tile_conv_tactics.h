// SPDX-License-Identifier: Apache-2.0
//
// What families of convolutions by the tile kernel (tile/tile_matmul_table.h) have in common: their tactics,
// and what each of these needs.
#pragma once

#include <functional>

#include "backend/cpu/kernel.h"

namespace lathe::cpu {

struct TileConvFamily {
  std::string_view runner;
  std::string_view name;    // tactics are <name>_f32_avx512 and <name>_avx512_bf16
  size_t channel_axis = 1;  // of the weights
  // What the family asks of a layer beyond constant weights and biases.
  std::function<Support()> support;
};

// Channels-last: FP32 to FP32, BF16 to BF16 and, where the layer may be in FP32, BF16 to FP32.
std::vector<Tactic> list_tile_conv(const LayerQuery& query, const Machine& machine,
                                   const TileConvFamily& family);

}  // namespace lathe::cpu
