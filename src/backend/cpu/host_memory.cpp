// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/error.h"

namespace lathe::cpu {

HostBuffer::HostBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
  const bool huge = bytes >= kHugePage / 2;
  const size_t page = huge ? kHugePage : kPage, rounded = (bytes + page - 1) / page * page;
  if (rounded >= bytes) data_.reset(static_cast<std::byte*>(std::aligned_alloc(page, rounded)));
  if (data_ == nullptr) throw_system_error(fmt::format("cannot allocate {} bytes of memory", bytes));
  // A wish: where it is not granted, the memory is as good, with small pages.
  if (huge) madvise(data_.get(), rounded, MADV_HUGEPAGE);
}

}  // namespace lathe::cpu
