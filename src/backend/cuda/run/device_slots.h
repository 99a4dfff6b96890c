// SPDX-License-Identifier: Apache-2.0
//
// Slots of Grown values in device memory.
#pragma once

#include <vector>

#include "backend/cuda/device/gpu_kernel.h"
#include "backend/grown_memory.h"

namespace lathe::cuda {

class DeviceSlots final : public GrownMemory {
 public:
  DeviceSlots(const Device& device, int slots)
      : GrownMemory(slots), device_(device), buffers_(static_cast<size_t>(slots)) {}

  // What lies in a slot that grows is copied on this stream from now on.
  void use(CUstream stream) { stream_ = stream; }

 private:
  std::byte* enlarge(size_t slot, size_t bytes) override;

  const Device& device_;
  CUstream stream_ = nullptr;
  std::vector<DeviceMemory> buffers_;
};

}  // namespace lathe::cuda
