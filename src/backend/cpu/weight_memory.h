// SPDX-License-Identifier: Apache-2.0
//
// Where the packed weights of a loaded engine lie while it runs: copied out of the file's mapping, block behind block, in huge
// pages. A network of 20 MB goes through more small pages than the processor keeps translations for (12 MB on a Zen 4), and
// prefetchers stop at the end of a page. Blocks that were packed in this process stay where they are.
#pragma once

#include <mutex>
#include <vector>

#include "backend/cpu/host_memory.h"
#include "backend/program.h"

namespace lathe::cpu {

// Hands out copies of what `store` has; may be used by several threads when `store` may.
class WeightMemory final : public BlobStore {
 public:
  explicit WeightMemory(BlobStore& store) : store_(store) {}
  std::span<const std::byte> find(const std::string& key) const override;
  std::span<const std::byte> put(const std::string& key, std::vector<std::byte> bytes) override {
    return store_.put(key, std::move(bytes));
  }
  // The copies, which outlive this object.
  std::vector<HostBuffer> take() { return std::move(slabs_); }

 private:
  std::byte* allocate(size_t bytes) const;

  BlobStore& store_;
  mutable std::mutex mutex_;
  mutable std::vector<HostBuffer> slabs_;
  mutable size_t used_ = 0;  // of the last slab
};

}  // namespace lathe::cpu
