// SPDX-License-Identifier: Apache-2.0
//
// Offsets for blocks with lifetimes, so that blocks that live at the same time do not overlap. Largest first,
// each into the smallest gap that holds it: within a few percent of the lower bound on the graphs that we
// know, and quick.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

inline constexpr int64_t kArenaAlignment = 64;

struct ArenaBlock {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps, both included
};

struct ArenaLayout {
  std::vector<int64_t> offsets;  // one per block
  int64_t bytes = 0;
  int64_t lower_bound = 0;  // the most bytes that live at one step
};
ArenaLayout lay_out_arena(std::span<const ArenaBlock> blocks);

}  // namespace lathe
