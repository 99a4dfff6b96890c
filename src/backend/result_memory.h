// SPDX-License-Identifier: Apache-2.0
//
// Memory for results whose size the layer itself finds and that nothing bounds.
#pragma once

#include <cstddef>

namespace lathe {

class ResultMemory {
 public:
  virtual ~ResultMemory() = default;
  // So many bytes for an output; null when it has a place already, which is then in the layer's arguments.
  virtual std::byte* take(size_t output, size_t bytes) = 0;
};

}  // namespace lathe
