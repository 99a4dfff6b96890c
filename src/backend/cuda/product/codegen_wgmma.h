// SPDX-License-Identifier: Apache-2.0
//
// What the kinds of Hopper products share: their tiles, and how operands are given to them. codegen_wgmma.cpp
// has a block for each tile, codegen_stay.cpp blocks that stay, codegen_relay.cpp blocks that also hand
// results to warps of their own.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/implicit_gemm.h"

namespace lathe::cuda {

struct WgmmaVariant {
  HopperTile tile;
  int splits = 1;
  bool patches = false;  // the rows of A are windows of an image, laid out by a kernel in front
  bool relay = false;    // blocks that stay (codegen_relay.cpp),
  bool stays = false;    // blocks that stay and finish their own tiles (codegen_stay.cpp),
  int blocks = 1;        // and how many of either
  int teams = 1;         // of a block that stays, which take turns, each with tiles of its own
  int kept = 0;          // steps of K, all, whose part of B blocks that stay keep; 0: it comes with each tile
  int result_size = 4;   // bytes of a result, at most; of the layer, no part of the tactic
  bool cluster = false;  // the parts of K are blocks of a cluster, which adds them up in shared memory

  static WgmmaVariant of(const TacticParams& params);
  TacticParams params() const;
  std::string name() const;

  int threads() const { return teams * tile.consumers() + (relay ? 128 : 32); }
  // Of a row of 16-bit results in shared memory, in elements: rows begin in different banks.
  int result_pitch() const { return tile.bn + 8; }
  int result_bytes() const {
    if (relay) return tile.rows() * result_pitch() * 2;
    return stays ? teams * tile.rows() * (tile.bn * result_size + 16) : 0;
  }
  int kept_bytes() const { return kept * tile.bn * 128; }
  int stage_bytes() const { return kept > 0 ? tile.rows() * 128 : tile.stage_bytes(); }
  int stages(const DeviceProperties& gpu) const {
    return tile.stages(gpu, result_bytes() + kept_bytes(), stage_bytes());
  }
  bool fits(const DeviceProperties& gpu) const {
    return stages(gpu) >= (stays ? 2 : 3) &&
           tile.registers_fit(gpu, stays ? tile.bn / 4 + 56 : 32,
                              relay ? 4 : 1 + 4 * tile.groups * (teams - 1));
  }
};

// Maps of A's rows and of the packed weights. `dealt`: of these in blocks of the tile's columns, in the order
// that stay.cuh wants.
struct WgmmaMaps {
  std::string a, weights;
};
WgmmaMaps wgmma_maps(KernelBuilder& b, const LayerQuery& query, const ImplicitGemm& p,
                     const WgmmaVariant& variant, bool dealt = false);
// Defines `batch` and tile_at(number), the ProductTile (wgmma_tiles.cuh) of that number; `batch` is then its
// batch.
void define_tile_at(KernelBuilder& b, const ImplicitGemm& p, const WgmmaVariant& variant);
Dim wgmma_tiles(const ImplicitGemm& p, const WgmmaVariant& variant);
// Columns of tiles, of all matrices, where n and their number are constants.
int64_t wgmma_columns(const ImplicitGemm& p, const WgmmaVariant& variant);

KernelSource stay_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                         const WgmmaVariant& variant, const DeviceProperties& gpu);
KernelSource relay_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                          const WgmmaVariant& variant, const DeviceProperties& gpu);

}  // namespace lathe::cuda
