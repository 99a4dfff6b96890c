// SPDX-License-Identifier: Apache-2.0
//
// Host memory, and the stream and event of a device that runs at once.
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include <string_view>

#include "backend/program.h"
#include "lathe/allocator.h"

namespace lathe::cpu {

// Aligned to a page, not initialised, never smaller than asked for. Empty when bytes is 0.
class HostBuffer final : public Buffer {
 public:
  HostBuffer() = default;
  // Throws System, with bytes and `what_for`, when there is no memory.
  // Of `allocator`, when there is one.
  explicit HostBuffer(size_t bytes, std::string_view what_for = "a buffer",
                      std::shared_ptr<v1::Allocator> allocator = nullptr);
  void* data() override { return data_.get(); }
  size_t bytes() const override { return bytes_; }
  std::byte* begin() const { return data_.get(); }

 private:
  struct Free {
    size_t mapped_bytes;                       // 0: from the heap
    std::shared_ptr<v1::Allocator> allocator;  // or from here
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

// Pieces of few large buffers, each aligned to a cache line, not initialised. What is never touched of a
// buffer takes no memory.
class HostSlabs {
 public:
  // Bytes of the first buffer and of those after it; a larger piece has one of its own size.
  HostSlabs(size_t first_bytes, size_t next_bytes, std::shared_ptr<v1::Allocator> allocator = nullptr)
      : first_bytes_(first_bytes), next_bytes_(next_bytes), allocator_(std::move(allocator)) {}
  std::byte* allocate(size_t bytes);
  // The buffers, which outlive this object.
  std::vector<HostBuffer> take() { return std::move(slabs_); }

 private:
  size_t first_bytes_, next_bytes_;
  std::shared_ptr<v1::Allocator> allocator_;
  std::vector<HostBuffer> slabs_;
  size_t used_ = 0;  // of the last one
};

// Work is done when the call that enqueues it returns.
class HostStream final : public Stream {
 public:
  void synchronize() override {}
};

class HostEvent final : public TimeEvent {
 public:
  void record(Stream&) override { time_ = std::chrono::steady_clock::now(); }
  void synchronize() override {}
  double elapsed_ms(const TimeEvent& start) const override {
    return std::chrono::duration<double, std::milli>(time_ - static_cast<const HostEvent&>(start).time_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

}  // namespace lathe::cpu
