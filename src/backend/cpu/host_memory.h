// SPDX-License-Identifier: Apache-2.0
//
// Host memory, and the stream and event of a device that runs at once.
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>

#include "backend/program.h"

namespace lathe::cpu {

// Aligned to a page, not initialised, never smaller than asked for. Empty when bytes is 0.
class HostBuffer final : public Buffer {
 public:
  HostBuffer() = default;
  // Throws System when there is no memory.
  explicit HostBuffer(size_t bytes);
  void* data() override { return data_.get(); }
  size_t bytes() const override { return bytes_; }
  std::byte* begin() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
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
