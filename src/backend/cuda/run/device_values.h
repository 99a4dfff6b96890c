// SPDX-License-Identifier: Apache-2.0
//
// Values on the GPU whose sizes are found while an engine runs: what bodies of If, Loop and Scan take and
// give. A value is a Tensor whose bytes lie in device memory; one that the host made (the number of an
// iteration) stays there until a kernel reads it.
//
// Memory is kept for the next value of about its size, in the order of one stream: a block that the host
// gives back may be taken for a later kernel while an earlier one still reads it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "backend/cuda/device/gpu_kernel.h"
#include "ir/format.h"
#include "ir/tensor.h"

namespace lathe::cuda {

// What lies at a device address, as a linear tensor of the host. The caller has waited for it.
Tensor copy_to_host(const Driver& driver, const TensorType& type, const Extents& extents,
                    const void* address);

// Where a tensor that DeviceValues::allocate() gave may be written, by the one who asked for it.
inline std::byte* place_of(const Tensor& tensor) {
  return const_cast<std::byte*>(tensor.bytes().data());
}

class DeviceValues {
 public:
  explicit DeviceValues(const Device& device);

  // What the calls below enqueue goes here. Values are those of one stream. `recorded`: into a graph, whose
  // replays find the values of the host as they are now; what a kernel computes cannot come to the host then.
  void use(CUstream stream, bool recorded = false) {
    stream_ = stream;
    is_recorded_ = recorded;
  }
  CUstream stream() const { return stream_; }
  bool is_recorded() const { return is_recorded_; }

  // On the device, with room for the elements in their format; contents undefined. The tensor's own bytes are
  // as many as its elements have.
  Tensor allocate(const TensorType& type, Extents extents);
  Tensor allocate_bytes(int64_t bytes) { return allocate({DType::UInt8, kLinear}, {bytes}); }
  // A tensor of somebody else's device memory, which outlives it.
  Tensor wrap(DType dtype, Extents extents, const void* address);
  // Forgets the addresses of wrap().
  void forget_wrapped() { wrapped_.clear(); }

  bool is_on_device(const Tensor& tensor) const;
  // The same value on the device, and in linear order on the host, where it comes from memory in `format`.
  // Both calls return the tensor itself where it is there already; on_host() waits for the stream, and throws
  // Input while it is recorded.
  Tensor on_device(const Tensor& tensor);
  Tensor on_host(const Tensor& tensor, const Format& format = kLinear) const;
  void copy(void* to, const Tensor& tensor);  // from wherever it lies, to device memory

  // For all that was enqueued.
  void wait() const;

  // Slice `index` along `axis`, without that dim; and parts one behind the other along `axis`.
  Tensor slice(const Tensor& tensor, size_t axis, int64_t index);
  Tensor join(const std::vector<Tensor>& parts, size_t axis);

 private:
  struct Pool {
    std::multimap<size_t, DeviceMemory> free;  // by size
    std::map<const std::byte*, size_t> taken;  // by address
  };
  struct Rows {
    int64_t count = 0, bytes = 0, from_pitch = 0, to_pitch = 0;
  };
  // A value of the host for graphs, in memory that no kernel writes.
  Tensor kept_on_device(const Tensor& tensor);
  bool is_kept(const std::byte* address) const;
  void copy_rows(const std::byte* from, std::byte* to, const Rows& rows) const;

  const Device& device_;
  CUstream stream_ = nullptr;
  bool is_recorded_ = false;
  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();  // outlived by values that an execution keeps
  std::map<const std::byte*, size_t> wrapped_;
  std::map<std::vector<std::byte>, DeviceMemory> kept_;  // by contents
};

}  // namespace lathe::cuda
