// SPDX-License-Identifier: Apache-2.0
//
// The slots of Grown values (memory/slots.h): device memory that grows, and keeps what lies in it.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/device/gpu_kernel.h"

namespace lathe::cuda {

class GrownMemory {
 public:
  GrownMemory(const Device& device, int slots)
      : device_(device), buffers_(static_cast<size_t>(slots)), addresses_(buffers_.size(), nullptr) {}

  // At least so many bytes, never none. What lies in the slot is copied on `stream`. Throws System when there
  // is no memory.
  std::byte* reserve(int slot, size_t bytes, CUstream stream);
  // By slot; null for one that was never reserved. Changes with every call of reserve().
  std::span<std::byte* const> addresses() const { return addresses_; }
  size_t bytes() const;

 private:
  const Device& device_;
  std::vector<DeviceMemory> buffers_;
  std::vector<std::byte*> addresses_;
};

}  // namespace lathe::cuda
