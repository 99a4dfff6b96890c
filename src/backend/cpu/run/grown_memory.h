// SPDX-License-Identifier: Apache-2.0
//
// The slots of Grown values (memory/slots.h): memory that grows, and keeps what lies in it.
#pragma once

#include <span>
#include <vector>

#include "backend/cpu/device/host_memory.h"

namespace lathe::cpu {

class GrownMemory {
 public:
  explicit GrownMemory(int slots)
      : buffers_(static_cast<size_t>(slots)), addresses_(buffers_.size(), nullptr) {}

  // At least so many bytes, never none. Throws System when there is no memory.
  std::byte* reserve(int slot, size_t bytes);
  // By slot; null for one that was never reserved. Changes with every call of reserve().
  std::span<std::byte* const> addresses() const { return addresses_; }
  size_t bytes() const;

 private:
  std::vector<HostBuffer> buffers_;
  std::vector<std::byte*> addresses_;
};

}  // namespace lathe::cpu
