// SPDX-License-Identifier: Apache-2.0
//
// Where the packed weights of a loaded engine lie while it runs: copied out of the file's mapping, block
// behind block, in huge pages. A network of 20 MB goes through more small pages than the processor keeps
// translations for (12 MB on a Zen 4), and prefetchers stop at the end of a page. Blocks that were packed in
// this process stay where they are.
#pragma once

#include <mutex>
#include <vector>

#include "backend/cpu/device/host_memory.h"
#include "backend/program.h"

namespace lathe::cpu {

// Hands out copies of what `store` has; may be used by several threads when `store` may.
class WeightMemory final : public BlobStore {
 public:
  explicit WeightMemory(BlobStore& store, std::shared_ptr<v1::Allocator> allocator = nullptr)
      : store_(store), slabs_(kFirstSlab, kSlab, std::move(allocator)) {}
  std::span<const std::byte> find(const std::string& key) const override;
  std::span<const std::byte> put(const std::string& key, std::vector<std::byte> bytes) override {
    return store_.put(key, std::move(bytes));
  }
  // The copies, which outlive this object.
  std::vector<HostBuffer> take() { return slabs_.take(); }

 private:
  // A small engine takes no huge page.
  static constexpr size_t kFirstSlab = size_t{512} << 10, kSlab = size_t{32} << 20;

  BlobStore& store_;
  mutable std::mutex mutex_;
  mutable HostSlabs slabs_;
};

}  // namespace lathe::cpu
