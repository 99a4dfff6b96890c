// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace lathe::cpu {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;

// Whole huge pages, fresh from the system: what the heap gives back may have been cut into small ones for
// good. Null: no memory.
std::byte* map_huge_pages(size_t bytes) {
  if (bytes + kHugePage < bytes) return nullptr;
  void* const all =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(all);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, kHugePage - before);
  // A wish: where it is not granted, the memory is as good, with small pages.
  madvise(begin + before, bytes, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

HostBuffer::HostBuffer(size_t bytes, std::string_view what_for, std::shared_ptr<v1::Allocator> allocator)
    : bytes_(bytes) {
  if (bytes == 0) return;
  if (allocator != nullptr) {
    auto* const memory = static_cast<std::byte*>(allocator->allocate(bytes, kPage, nullptr));
    data_ = std::unique_ptr<std::byte, Free>(memory, Free{0, std::move(allocator)});
    if (memory == nullptr)
      throw_system_error(
          fmt::format("the allocator that was given has no memory: {} bytes for {}", bytes, what_for),
          ErrorCode::FailedAllocation);
    if (reinterpret_cast<uintptr_t>(memory) % kPage != 0)
      throw_system_error(
          fmt::format(
              "the allocator that was given has memory at {} for {}, and a multiple of {} was asked for",
              static_cast<void*>(memory), what_for, kPage),
          ErrorCode::FailedAllocation);
    return;
  }
  const bool huge = bytes >= kHugePage / 2;
  const size_t page = huge ? kHugePage : kPage, rounded = (bytes + page - 1) / page * page;
  if (rounded >= bytes)
    data_ = std::unique_ptr<std::byte, Free>(
        huge ? map_huge_pages(rounded) : static_cast<std::byte*>(std::aligned_alloc(page, rounded)),
        Free{huge ? rounded : 0, nullptr});
  if (data_ == nullptr)
    throw_system_error(fmt::format("out of memory: {} bytes for {}", bytes, what_for),
                       ErrorCode::FailedAllocation);
}

std::byte* HostSlabs::allocate(size_t bytes) {
  constexpr size_t kLine = 64;
  bytes = (bytes + kLine - 1) / kLine * kLine;
  if (slabs_.empty() || used_ + bytes > slabs_.back().bytes()) {
    slabs_.emplace_back(std::max(bytes, slabs_.empty() ? first_bytes_ : next_bytes_), "packed weights",
                        allocator_);
    used_ = 0;
  }
  std::byte* const at = slabs_.back().begin() + used_;
  used_ += bytes;
  return at;
}

void HostBuffer::Free::operator()(std::byte* p) const {
  if (allocator != nullptr)
    allocator->deallocate(p, nullptr);
  else if (mapped_bytes > 0)
    munmap(p, mapped_bytes);
  else
    std::free(p);
}

}  // namespace lathe::cpu
