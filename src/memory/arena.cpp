// SPDX-License-Identifier: Apache-2.0
#include "memory/arena.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace lathe {
namespace {

int64_t round_up(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

struct Placed {
  int64_t begin, end;
  int first, last;
};

// The smallest gap between blocks that live at the same time; after them when none is big enough. `placed` is
// sorted by begin.
int64_t best_offset(const std::vector<Placed>& placed, const ArenaBlock& block, int64_t bytes) {
  int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), end = 0;
  for (const Placed& p : placed) {
    if (p.last < block.first || block.last < p.first) continue;
    const int64_t gap = p.begin - end;
    if (gap >= bytes && gap < best_gap) best = end, best_gap = gap;
    end = std::max(end, p.end);
  }
  return best >= 0 ? best : end;
}

int64_t most_bytes_at_once(std::span<const ArenaBlock> blocks) {
  std::map<int, int64_t> change;
  for (const ArenaBlock& b : blocks) {
    change[b.first] += round_up(b.bytes);
    change[b.last + 1] -= round_up(b.bytes);
  }
  int64_t now = 0, most = 0;
  for (const auto& [step, bytes] : change) most = std::max(most, now += bytes);
  return most;
}

}  // namespace

ArenaLayout lay_out_arena(std::span<const ArenaBlock> blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });

  ArenaLayout layout;
  layout.offsets.resize(blocks.size());
  layout.lower_bound = most_bytes_at_once(blocks);
  std::vector<Placed> placed;
  for (const size_t i : order) {
    const int64_t bytes = round_up(blocks[i].bytes);
    const int64_t offset = bytes == 0 ? 0 : best_offset(placed, blocks[i], bytes);
    layout.offsets[i] = offset;
    layout.bytes = std::max(layout.bytes, offset + bytes);
    if (bytes == 0) continue;
    const Placed p{offset, offset + bytes, blocks[i].first, blocks[i].last};
    const auto at = std::upper_bound(placed.begin(), placed.end(), p,
                                     [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    placed.insert(at, p);
  }
  return layout;
}

}  // namespace lathe
