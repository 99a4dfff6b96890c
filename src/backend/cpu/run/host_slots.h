// SPDX-License-Identifier: Apache-2.0
//
// Slots of Grown values in the host's memory.
#pragma once

#include <vector>

#include "backend/cpu/device/host_memory.h"
#include "backend/grown_memory.h"

namespace lathe::cpu {

class HostSlots final : public GrownMemory {
 public:
  explicit HostSlots(int slots) : GrownMemory(slots), buffers_(static_cast<size_t>(slots)) {}

 private:
  std::byte* enlarge(size_t slot, size_t bytes) override;

  std::vector<HostBuffer> buffers_;
};

}  // namespace lathe::cpu
