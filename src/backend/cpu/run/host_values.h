// SPDX-License-Identifier: Apache-2.0
//
// Values of bodies in memory of the host that is used again: a body runs often, with the same shapes or with
// shapes that grow a little, and fresh pages cost more than a small convolution.
#pragma once

#include <map>
#include <memory>

#include "backend/cpu/device/host_memory.h"
#include "ir/format.h"
#include "ir/tensor.h"

namespace lathe::cpu {

class HostValues {
 public:
  // Room for the elements in their format, aligned to a page; contents undefined. The memory comes back when
  // the last tensor that shares it goes, which may be behind this object's end. One thread at a time.
  Tensor allocate(const TensorType& type, const Extents& extents);
  // Bytes that wait to be used again: never more than were in use at once.
  int64_t waiting_bytes() const { return pool_->waiting_bytes; }

 private:
  struct Pool {
    std::multimap<size_t, HostBuffer> waiting;  // by size
    int64_t waiting_bytes = 0, used_bytes = 0, most_bytes = 0;

    HostBuffer take(size_t bytes);
    void give_back(HostBuffer buffer);
  };
  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

// Where an allocated tensor may be written, by the one who made it.
inline std::byte* place_of(const Tensor& tensor) {
  return const_cast<std::byte*>(tensor.bytes().data());
}

}  // namespace lathe::cpu
