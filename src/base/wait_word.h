// SPDX-License-Identifier: Apache-2.0
//
// A number on its own cache line that only grows, and that threads wait for: spinning for a bounded time,
// then asleep in the kernel. Spinning makes a hand-over cost a fraction of a microsecond; the bound makes a
// busy machine cost its share only.
//
// A waiter announces itself (`sleepers`) before it looks a last time, and whoever changes the word looks at
// `sleepers` after the change, all sequentially consistent: one of the two sees the other, so no wake-up is
// lost, and nobody makes a system call when nobody sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace lathe {

constexpr size_t kCacheLine = 64;

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)  // an instruction of the target, there is no portable spelling
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class alignas(kCacheLine) WaitWord {
 public:
  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  bool reached(uint64_t target) const { return has_reached(value(), target); }

  // Both wake all sleepers.
  void set(uint64_t value) {
    value_.store(value, std::memory_order_seq_cst);
    wake_sleepers();
  }
  void add(uint64_t value) {
    value_.fetch_add(value, std::memory_order_seq_cst);
    wake_sleepers();
  }
  // Sets the number if it is `old`, which otherwise becomes what it is. Nobody is woken.
  bool replace(uint64_t& old, uint64_t value) {
    return value_.compare_exchange_weak(old, value, std::memory_order_acq_rel);
  }
  // Begins anew. Nobody may be waiting.
  void reset() { value_.store(0, std::memory_order_relaxed); }

  // True when the number reached `target` within about that time.
  bool spin_until(uint64_t target, std::chrono::microseconds time) const {
    // Reading the clock costs as much as a pause or two, so the first rounds go without.
    for (int i = 0; i < 64; ++i) {
      pause_cpu();
      if (reached(target)) return true;
    }
    const auto end = std::chrono::steady_clock::now() + time;
    do {
      for (int i = 0; i < 16; ++i) {
        pause_cpu();
        if (reached(target)) return true;
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  void sleep_until(uint64_t target) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_.wait(lock, [&] { return has_reached(value_.load(std::memory_order_seq_cst), target); });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  // The same for at most that time; true when the number has reached `target`.
  bool sleep_until(uint64_t target, std::chrono::microseconds time) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const bool done = wake_.wait_for(
        lock, time, [&] { return has_reached(value_.load(std::memory_order_seq_cst), target); });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return done;
  }

 private:
  void wake_sleepers() {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    { const std::lock_guard lock(mutex_); }  // a sleeper that has looked at the number is asleep by now
    wake_.notify_all();
  }
  // By difference, so that it goes on working when the numbers wrap around after some months of short runs.
  static bool has_reached(uint64_t value, uint64_t target) {
    return static_cast<int64_t>(value - target) >= 0;
  }

  std::atomic<uint64_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
  alignas(kCacheLine) std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace lathe
