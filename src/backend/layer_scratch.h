// SPDX-License-Identifier: Apache-2.0
//
// What an execution may tell of its layers' scratch memory, besides their sum.
#pragma once

#include <cstdint>
#include <vector>

namespace lathe {

class LayerScratch {
 public:
  virtual ~LayerScratch() = default;
  // Bytes of each layer, in graph order, at the shapes that were set.
  virtual std::vector<int64_t> layer_scratch_bytes() const = 0;
};

}  // namespace lathe
