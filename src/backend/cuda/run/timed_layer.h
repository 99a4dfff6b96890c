// SPDX-License-Identifier: Apache-2.0
//
// Timing one layer with one tactic on the GPU, for the tuner.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/kernel.h"

namespace lathe::cuda {

// Operands and packed constants of the layers timed last, for their rivals, and random data for all: making
// them takes longer than timing.
class TimingMemory {
 public:
  struct Set {
    std::vector<DeviceMemory> memory;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
  };
  using Sets = std::vector<Set>;

  // The operands of that key, made by `make` when they are not the last few.
  std::shared_ptr<const Sets> sets(const std::string& key, const std::function<Sets()>& make);
  // A megabyte of random elements, integers below `limit`. Stays valid.
  const std::vector<std::byte>& pattern(DType dtype, int64_t limit);
  // Blocks packed for a layer with these constants.
  std::shared_ptr<BlobStore> blobs(const std::string& constants);

 private:
  std::mutex mutex_, pattern_mutex_;  // patterns are asked for while sets are made
  std::list<std::pair<std::string, std::shared_ptr<const Sets>>> sets_;
  std::map<std::pair<DType, int64_t>, std::vector<std::byte>> patterns_;
  std::string constants_;
  std::shared_ptr<MemoryBlobStore> blobs_;
};

std::unique_ptr<TimedLayer> prepare_timed_layer(const LayerQuery& query, const Tactic& tactic,
                                                std::shared_ptr<const Device> device, TimingMemory& memory);

}  // namespace lathe::cuda
