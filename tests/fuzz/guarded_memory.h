// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace fuzz {

// Memory that ends (but for alignment) at a page that nobody may touch: code that a sanitizer does not see,
// generated code too, ends in a signal when it goes beyond.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes) : mapped_((bytes + kPage - 1) / kPage * kPage + kPage) {
    void* const all = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<std::byte*>(all);
    mprotect(begin_ + mapped_ - kPage, kPage, PROT_NONE);
    data_ = begin_ + mapped_ - kPage - (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  ~GuardedMemory() {
    if (begin_ != nullptr) munmap(begin_, mapped_);
  }
  GuardedMemory(GuardedMemory&& other) noexcept
      : mapped_(other.mapped_), begin_(std::exchange(other.begin_, nullptr)), data_(other.data_) {}
  GuardedMemory& operator=(GuardedMemory&&) = delete;

  std::byte* data() { return data_; }

 private:
  static constexpr size_t kPage = 4096, kAlignment = 64;
  size_t mapped_;
  std::byte* begin_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace fuzz
