// SPDX-License-Identifier: Apache-2.0
#include "base/make_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace lathe {

void make_pages(std::byte* begin, size_t bytes) {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20, kPage = 4096;
  if (bytes < kHugePage / 2) return;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = (address + bytes) / kHugePage * kHugePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE  // kernels before 5.14 refuse, and the pages come one by one
  const uintptr_t whole = (address + kPage - 1) / kPage * kPage;
  madvise(reinterpret_cast<void*>(whole), (address + bytes) / kPage * kPage - whole, MADV_POPULATE_WRITE);
#endif
}

}  // namespace lathe
