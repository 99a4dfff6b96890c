// SPDX-License-Identifier: Apache-2.0
//
// What the kinds of Hopper products share: their tiles, and how operands are given to them. codegen_wgmma.cpp
// has a block for each tile, codegen_stay.cpp blocks that stay, codegen_relay.cpp blocks that also hand
// results to warps of their own.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cuda/codegen/implicit_gemm.h"

namespace lathe::cuda {

inline constexpr int kWgmmaStep = 64;  // of K, in 16 bits: a row of a tile is 128 bytes

struct WgmmaVariant {
  int groups = 1, bn = 64, resident = 1, splits = 1;
  bool patches = false;  // the rows of A are windows of an image, laid out by a kernel in front
  bool relay = false;    // blocks that stay (codegen_relay.cpp),
  bool stays = false;    // blocks that stay and finish their own tiles (codegen_stay.cpp),
  int blocks = 1;        // and how many of either
  bool cluster = false;  // the parts of K are blocks of a cluster, which adds them up in shared memory

  static WgmmaVariant of(const TacticParams& params);
  TacticParams params() const;
  std::string name() const;

  int rows() const { return 64 * groups; }
  int threads() const { return 128 * groups + (relay ? 128 : 32); }
  int stage_bytes() const { return (rows() + bn) * 128; }
  // Of a row of 16-bit results in shared memory, in elements: rows begin in different banks.
  int result_pitch() const { return bn + 8; }
  int result_bytes() const {
    return relay ? rows() * result_pitch() * 2 : stays ? rows() * (bn * 4 + 16) : 0;
  }
  // Stages that fit when `resident` blocks share a multiprocessor: each also has 1 KiB of the system's, 1 KiB
  // for alignment, and its barriers.
  int stages(const DeviceProperties& gpu) const {
    const auto bytes = static_cast<int>(gpu.shared_bytes_each(resident)) - 1024 - 256 - result_bytes();
    return std::min(8, bytes / stage_bytes());
  }
  bool fits(const DeviceProperties& gpu) const {
    const int registers = (bn / 2 + (stays ? bn / 4 + 56 : 32) + 7) / 8 * 8,
              warps = relay ? 4 * groups + 4 : 4 * groups + 1;
    return stages(gpu) >= (stays ? 2 : 3) && registers <= 232 &&
           registers * 32 * warps * resident <= gpu.registers_per_multiprocessor;
  }
};

// Maps of A's rows and of the packed weights.
struct WgmmaMaps {
  std::string a, weights;
};
WgmmaMaps wgmma_maps(KernelBuilder& b, const LayerQuery& query, const ImplicitGemm& p,
                     const WgmmaVariant& variant);
// Text that defines row0, column0 and batch of tile number `tile`, and a_row and b_row, where its operands
// begin.
std::string wgmma_tile(KernelBuilder& b, const ImplicitGemm& p, const WgmmaVariant& variant,
                       const std::string& tile);
Dim wgmma_tiles(const ImplicitGemm& p, const WgmmaVariant& variant);

KernelSource stay_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                         const WgmmaVariant& variant, const DeviceProperties& gpu);
KernelSource relay_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                          const WgmmaVariant& variant, const DeviceProperties& gpu);

}  // namespace lathe::cuda
