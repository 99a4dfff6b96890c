// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/host_memory.h"

#include <fmt/format.h>

#include "base/error.h"

namespace lathe::cpu {

HostBuffer::HostBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  constexpr size_t kPage = 4096;
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  if (rounded >= bytes) data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)));
  if (data_ == nullptr) throw_system_error(fmt::format("cannot allocate {} bytes of memory", bytes));
}

}  // namespace lathe::cpu
