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
  // Of `allocator`, when there is one.
  explicit HostSlots(int slots, std::shared_ptr<v1::Allocator> allocator = nullptr)
      : GrownMemory(slots), allocator_(std::move(allocator)), buffers_(static_cast<size_t>(slots)) {}

 private:
  std::byte* enlarge(size_t slot, size_t bytes) override;

  std::shared_ptr<v1::Allocator> allocator_;
  std::vector<HostBuffer> buffers_;
};

}  // namespace lathe::cpu
