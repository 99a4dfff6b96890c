// SPDX-License-Identifier: Apache-2.0
//
// Sizes are rounded up to a quarter of a power of two, so that what grows a little finds the buffer of the
// step before.
#include "backend/cpu/run/host_values.h"

#include <algorithm>
#include <bit>

namespace lathe::cpu {
namespace {

size_t rounded_capacity(size_t bytes) {
  constexpr size_t kLeast = 256;
  if (bytes <= kLeast) return kLeast;
  const size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace

HostBuffer HostValues::Pool::take(size_t bytes) {
  const size_t wanted = rounded_capacity(bytes);
  used_bytes += static_cast<int64_t>(wanted);
  most_bytes = std::max(most_bytes, used_bytes);
  const auto found = waiting.find(wanted);
  if (found == waiting.end()) return HostBuffer(wanted, "a value of a body");
  HostBuffer buffer = std::move(found->second);
  waiting.erase(found);
  waiting_bytes -= static_cast<int64_t>(wanted);
  return buffer;
}

void HostValues::Pool::give_back(HostBuffer buffer) {
  const size_t bytes = buffer.bytes();
  used_bytes -= static_cast<int64_t>(bytes);
  waiting_bytes += static_cast<int64_t>(bytes);
  waiting.emplace(bytes, std::move(buffer));
  // Those of what has grown meanwhile go first.
  while (waiting_bytes > most_bytes) {
    waiting_bytes -= static_cast<int64_t>(waiting.begin()->first);
    waiting.erase(waiting.begin());
  }
}

Tensor HostValues::allocate(const TensorType& type, const Extents& extents) {
  const auto stored = static_cast<size_t>(storage_bytes(type.dtype, extents, type.format));
  const auto dense = static_cast<size_t>(dtype_bytes(type.dtype, element_count(extents)));
  auto* buffer = new HostBuffer(pool_->take(std::max(stored, dense)));
  const std::shared_ptr<const void> owner(buffer, [pool = pool_](HostBuffer* held) {
    pool->give_back(std::move(*held));
    delete held;
  });
  return Tensor::wrap(type.dtype, extents, {buffer->begin(), dense}, owner);
}

}  // namespace lathe::cpu
