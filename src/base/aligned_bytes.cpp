// SPDX-License-Identifier: Apache-2.0
#include "base/aligned_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/make_pages.h"

namespace lathe {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kPiece = size_t{4} << 20;
// Below it the heap keeps the memory for the next block, which then has its pages.
constexpr size_t kGivenBack = size_t{32} << 20;

// The whole pages inside [begin, end) lose their contents and their memory. Only for memory that nobody reads
// again.
void give_back(std::byte* begin, std::byte* end) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const uintptr_t last = reinterpret_cast<uintptr_t>(end) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace

void AlignedBytes::Release::operator()(std::byte* data) const {
  ::operator delete(data, kAlignment);
}

AlignedBytes::AlignedBytes(std::vector<std::byte> bytes)
    : data_(static_cast<std::byte*>(::operator new(std::max<size_t>(bytes.size(), 1), kAlignment))),
      size_(bytes.size()) {
  // In huge pages: weights are streamed, and a table of small pages has no room for all of them.
  make_pages(data_.get(), size_);
  for (size_t at = 0; at < size_; at += kPiece) {
    const size_t count = std::min(kPiece, size_ - at);
    std::memcpy(data_.get() + at, bytes.data() + at, count);
    if (size_ >= kGivenBack && count == kPiece) give_back(bytes.data() + at, bytes.data() + at + count);
  }
}

}  // namespace lathe
