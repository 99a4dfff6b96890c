// SPDX-License-Identifier: Apache-2.0
//
// Where the packed weights of a loaded engine lie while it runs, whether its file has them or they are packed
// at load: block behind block, in huge pages. A network of 20 MB goes through more small pages than the
// processor keeps translations for (12 MB on a Zen 4), and prefetchers stop at the end of a page. Those of a
// build, which may be written to a file, stay where they are.
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
  std::span<const std::byte> put(const std::string& key, std::vector<std::byte> bytes) override;
  // Of what was packed and is in no store.
  int64_t packed_bytes() const { return packed_bytes_; }
  // The copies, which outlive this object.
  std::vector<HostBuffer> take() { return slabs_.take(); }

 private:
  std::span<const std::byte> copy(std::span<const std::byte> bytes) const;
  // A small engine takes no huge page.
  static constexpr size_t kFirstSlab = size_t{512} << 10, kSlab = size_t{32} << 20;

  BlobStore& store_;
  mutable std::mutex mutex_;
  mutable HostSlabs slabs_;
  int64_t packed_bytes_ = 0;
};

}  // namespace lathe::cpu
