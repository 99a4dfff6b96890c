// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/device_values.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "backend/storage_layout.h"
#include "base/error.h"

namespace lathe::cuda {
namespace {

constexpr size_t kAlignment = 256;  // of device memory, and at least what kernels expect of operands
constexpr size_t kOperandAlignment = 16;

// Sizes of blocks: eight for each doubling, so that keys and values that grow from step to step meet a block
// that is there.
size_t block_size(size_t bytes) {
  const size_t step = std::max(std::bit_floor(bytes) / 8, kAlignment);
  return (bytes + step - 1) / step * step;
}

bool is_inside(const std::map<const std::byte*, size_t>& blocks, const std::byte* address) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return address < begin + bytes;
}

int64_t element_product(const Extents& extents, size_t first, size_t last) {
  return std::accumulate(extents.begin() + static_cast<std::ptrdiff_t>(first),
                         extents.begin() + static_cast<std::ptrdiff_t>(last), int64_t{1},
                         std::multiplies<>());
}

}  // namespace

Tensor copy_to_host(const Driver& driver, const TensorType& type, const Extents& extents,
                    const void* address) {
  const auto copy = [&](std::span<std::byte> to) {
    if (!to.empty())
      driver.require(driver.cuMemcpyDtoH(to.data(), reinterpret_cast<CUdeviceptr>(address), to.size()),
                     "copying a value to the host");
  };
  if (is_same_layout(extents, type.format, kLinear)) {
    Tensor tensor = Tensor::allocate(type.dtype, extents);
    copy(tensor.mutable_bytes());
    return tensor;
  }
  std::vector<std::byte> stored(static_cast<size_t>(storage_bytes(type.dtype, extents, type.format)));
  copy(stored);
  return to_linear(type, extents, stored.data());
}

DeviceValues::DeviceValues(const Device& device) : device_(device) {}

Tensor DeviceValues::allocate(const TensorType& type, Extents extents) {
  const DType dtype = type.dtype;
  const auto bytes = static_cast<size_t>(dtype_bytes(dtype, element_count(extents)));
  if (bytes == 0) return Tensor::allocate(dtype, std::move(extents));
  const size_t size =
      block_size(std::max(bytes, static_cast<size_t>(storage_bytes(dtype, extents, type.format))));
  DeviceMemory memory;
  if (const auto found = pool_->free.find(size); found != pool_->free.end()) {
    memory = std::move(found->second);
    pool_->free.erase(found);
  } else {
    memory = DeviceMemory(device_, size);
  }
  const auto* address = static_cast<const std::byte*>(memory.data());
  pool_->taken.emplace(address, size);
  // Given back when the last tensor goes that shares the block.
  auto block = std::shared_ptr<DeviceMemory>(new DeviceMemory(std::move(memory)),
                                             [pool = pool_, size, address](DeviceMemory* given) {
                                               const std::unique_ptr<DeviceMemory> owner(given);
                                               pool->taken.erase(address);
                                               pool->free.emplace(size, std::move(*owner));
                                             });
  return Tensor::wrap(dtype, std::move(extents), {address, bytes}, std::move(block));
}

Tensor DeviceValues::wrap(DType dtype, Extents extents, const void* address) {
  const auto bytes = static_cast<size_t>(dtype_bytes(dtype, element_count(extents)));
  if (bytes == 0) return Tensor::allocate(dtype, std::move(extents));
  const auto* begin = static_cast<const std::byte*>(address);
  wrapped_[begin] = std::max(wrapped_[begin], bytes);
  return Tensor::wrap(dtype, std::move(extents), {begin, bytes}, nullptr);
}

bool DeviceValues::is_on_device(const Tensor& tensor) const {
  const std::byte* address = tensor.bytes().data();
  return !tensor.bytes().empty() && address != nullptr &&
         (is_inside(pool_->taken, address) || is_inside(wrapped_, address) || is_kept(address));
}

bool DeviceValues::is_kept(const std::byte* address) const {
  return std::any_of(kept_.begin(), kept_.end(), [&](const auto& entry) {
    const auto* begin = static_cast<const std::byte*>(entry.second.data());
    return address >= begin && address < begin + entry.second.bytes();
  });
}

Tensor DeviceValues::kept_on_device(const Tensor& tensor) {
  const std::span<const std::byte> bytes = tensor.bytes();
  DeviceMemory& memory = kept_[{bytes.begin(), bytes.end()}];
  if (memory.bytes() == 0) memory = DeviceMemory(device_, bytes);
  return Tensor::wrap(tensor.dtype(), tensor.extents(),
                      {static_cast<const std::byte*>(memory.data()), bytes.size()}, nullptr);
}

Tensor DeviceValues::on_device(const Tensor& tensor) {
  if (is_on_device(tensor) || tensor.bytes().empty()) return tensor;
  if (is_recorded_) return kept_on_device(tensor);
  Tensor there = allocate({tensor.dtype(), kLinear}, tensor.extents());
  copy(place_of(there), tensor);
  return there;
}

void DeviceValues::wait() const {
  device_.driver->require(device_.driver->cuStreamSynchronize(stream_), "waiting for a value of a body");
}

Tensor DeviceValues::on_host(const Tensor& tensor, const Format& format) const {
  if (!is_on_device(tensor)) return tensor;
  if (is_recorded_)
    throw_input_error("the host has to know a value of the GPU: " + std::string(dtype_name(tensor.dtype())) +
                      " " + to_string(tensor.extents()));
  wait();
  return copy_to_host(*device_.driver, {tensor.dtype(), format}, tensor.extents(), tensor.bytes().data());
}

void DeviceValues::copy(void* to, const Tensor& tensor) {
  if (tensor.bytes().empty()) return;
  const Driver& driver = *device_.driver;
  const auto target = reinterpret_cast<CUdeviceptr>(to);
  const std::span<const std::byte> bytes = (is_recorded_ ? on_device(tensor) : tensor).bytes();
  driver.require(is_recorded_ || is_on_device(tensor)
                     ? driver.cuMemcpyDtoDAsync(target, reinterpret_cast<CUdeviceptr>(bytes.data()),
                                                bytes.size(), stream_)
                     : driver.cuMemcpyHtoDAsync(target, bytes.data(), bytes.size(), stream_),
                 "copying a value of a body");
}

void DeviceValues::copy_rows(const std::byte* from, std::byte* to, const Rows& rows) const {
  if (rows.count == 0 || rows.bytes == 0) return;
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(from);
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  copy.srcPitch = static_cast<size_t>(rows.from_pitch);
  copy.dstPitch = static_cast<size_t>(rows.to_pitch);
  copy.WidthInBytes = static_cast<size_t>(rows.bytes);
  copy.Height = static_cast<size_t>(rows.count);
  device_.driver->require(device_.driver->cuMemcpy2DAsync(&copy, stream_),
                          "copying a slice of a body's value");
}

Tensor DeviceValues::slice(const Tensor& tensor, size_t axis, int64_t index) {
  Extents extents = tensor.extents();
  const int64_t outer = element_product(extents, 0, axis), count = extents[axis];
  extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
  const int64_t inner =
      dtype_bytes(tensor.dtype(), element_product(tensor.extents(), axis + 1, tensor.extents().size()));
  const std::byte* from = tensor.bytes().data() + index * inner;
  if (outer == 1 && reinterpret_cast<uintptr_t>(from) % kOperandAlignment == 0) {
    const auto owner = std::make_shared<Tensor>(tensor);
    return Tensor::wrap(tensor.dtype(), std::move(extents), {from, static_cast<size_t>(inner)}, owner);
  }
  Tensor slice = allocate({tensor.dtype(), kLinear}, std::move(extents));
  copy_rows(from, place_of(slice),
            {.count = outer, .bytes = inner, .from_pitch = inner * count, .to_pitch = inner});
  return slice;
}

Tensor DeviceValues::join(const std::vector<Tensor>& parts, size_t axis) {
  Extents extents = parts[0].extents();
  extents[axis] = 0;
  for (const Tensor& part : parts) extents[axis] += part.extents()[axis];
  const int64_t outer = element_product(extents, 0, axis);
  const auto row_bytes = [&](const Extents& e) {
    return dtype_bytes(parts[0].dtype(), element_product(e, axis, e.size()));
  };
  Tensor joined = allocate({parts[0].dtype(), kLinear}, extents);
  if (joined.bytes().empty()) return joined;
  std::byte* to = place_of(joined);
  for (const Tensor& part : parts) {
    const int64_t bytes = row_bytes(part.extents());
    if (outer == 1)
      copy(to, part);
    else
      copy_rows(on_device(part).bytes().data(), to,
                {.count = outer, .bytes = bytes, .from_pitch = bytes, .to_pitch = row_bytes(extents)});
    to += bytes;
  }
  return joined;
}

}  // namespace lathe::cuda
