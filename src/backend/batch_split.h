// SPDX-License-Identifier: Apache-2.0
//
// A batch computed in parts: each part goes all the way through the network before the next one, and every
// thread takes parts of its own. What lies between two layers is then one part's and stays in the caches, and
// threads never wait for each other; weights are read once per part instead of once per batch. Networks with
// large activations and small weights gain (EfficientNet-B0), those with large weights lose. The builder
// measures both (builder/batch_items.h).
#pragma once

#include <string>

#include "ir/dim.h"

namespace lathe {

struct BatchSplit {
  std::string symbol;  // the batch: leading dim of all outputs and of the inputs that have it
  int64_t part = 0;    // items at a time; 0: the whole batch at once
  bool on() const { return part > 0; }
  bool operator==(const BatchSplit&) const = default;
};

// The shapes of one part: what layers are tuned, placed and compiled for.
inline SymbolRanges part_ranges(SymbolRanges ranges, const BatchSplit& split) {
  if (split.on()) ranges[split.symbol] = {.min = 1, .opt = split.part, .max = split.part};
  return ranges;
}

}  // namespace lathe
