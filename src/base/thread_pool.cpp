// SPDX-License-Identifier: Apache-2.0
//
// How a team starts, meets and ends.
//
//   start    each worker has a ticket on its own cache line; the caller raises the tickets of the members it
//   wants, and
//            wakes those that sleep. A worker that is not wanted is not disturbed.
//   barrier  a counter of arrivals and a phase number: the last to arrive resets the counter and raises the
//   phase, on
//            which the others wait (a sense-reversing barrier whose sense is a number, so it needs no reset).
//   end      members count down; the caller waits for zero. Only then may the job's fields change, so a slow
//   member
//            never reads those of the next job.
//
// All three wait in the same way: spin for a bounded time, yield a few times, sleep in the kernel. Spinning
// makes a hand-over cost a fraction of a microsecond; the bound makes a busy machine cost its share only:
// whoever waits for a member that lost its core goes to sleep soon and leaves its own core to that member. A
// pool with more threads than cores does not spin at all.
//
// A waiter announces itself (`sleepers`) before it looks a last time, and whoever changes the word looks at
// `sleepers` after the change, all sequentially consistent: one of the two sees the other, so no wake-up is
// lost, and nobody makes a system call when nobody sleeps.
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lathe {
namespace {

constexpr size_t kCacheLine = 64;
// Longer than the gaps between the layers of a network and between inferences of a benchmark loop, shorter
// than anything a user would notice as load. Waking a sleeping thread costs 5 to 50 us.
constexpr std::chrono::microseconds kSpinTime{40};

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)  // an instruction of the target, there is no portable spelling
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A number on its own cache line that threads wait to see change.
class alignas(kCacheLine) WaitWord {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Raises the number and wakes all sleepers.
  void advance() {
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    { const std::lock_guard lock(mutex_); }  // a sleeper that has looked at the number is asleep by now
    wake_.notify_all();
  }

  // Returns when the number differs from `old`.
  void wait_while(uint32_t old, bool spin) {
    if (value() != old || (spin && spin_while(old))) return;
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_.wait(lock, [&] { return value_.load(std::memory_order_seq_cst) != old; });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  bool spin_while(uint32_t old) const {
    // Reading the clock costs as much as a pause or two, so the first rounds go without.
    for (int i = 0; i < 64; ++i) {
      pause_cpu();
      if (value() != old) return true;
    }
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 16; ++i) {
        pause_cpu();
        if (value() != old) return true;
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
  alignas(kCacheLine) std::mutex mutex_;
  std::condition_variable wake_;
};

// Leaves a body whose team has failed. Not an Error: nobody but run() may catch it.
struct TeamFailed {};

// Calls are served first come, first served; who waits sleeps, because the running team needs the cores.
class TurnQueue {
 public:
  void enter() {
    std::unique_lock lock(mutex_);
    if (!busy_) {
      busy_ = true;
      return;
    }
    Waiter me;
    waiters_.push_back(&me);
    me.wake.wait(lock, [&] { return me.turn; });
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (waiters_.empty()) {
      busy_ = false;
      return;
    }
    Waiter* next = waiters_.front();  // busy_ stays: the turn passes on
    waiters_.pop_front();
    next->turn = true;
    next->wake.notify_one();  // under the lock: `next` cannot be gone before this returns
  }

 private:
  struct Waiter {
    std::condition_variable wake;
    bool turn = false;
  };
  std::mutex mutex_;
  bool busy_ = false;
  std::deque<Waiter*> waiters_;
};

// Nested calls must find out that they are nested, whichever pool they use.
thread_local bool inside_team = false;

}  // namespace

class TeamBarrier {
 public:
  explicit TeamBarrier(bool spin) : spin_(spin) {}

  void start(uint32_t count) {
    count_ = count;
    arrived_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
  }
  void arrive_and_wait() {
    // The phase first: a failure that this look at the flag misses raises the phase after we read it.
    const uint32_t phase = phase_.value();
    if (failed_.load(std::memory_order_seq_cst)) throw TeamFailed{};
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      arrived_.store(0, std::memory_order_relaxed);  // nobody arrives again before the phase changes
      phase_.advance();
    } else {
      phase_.wait_while(phase, spin_);
    }
    if (failed_.load(std::memory_order_acquire)) throw TeamFailed{};
  }
  // Lets everybody out: who waits now sees the phase change, who comes later sees the flag.
  void fail() {
    failed_.store(true, std::memory_order_seq_cst);
    phase_.advance();
  }

 private:
  alignas(kCacheLine) std::atomic<uint32_t> arrived_{0};
  WaitWord phase_;
  std::atomic<bool> failed_{false};
  uint32_t count_ = 1;
  const bool spin_;
};

void Worker::barrier() const {
  if (barrier_ != nullptr) barrier_->arrive_and_wait();
}

Worker::Range Worker::slice(int64_t total, int64_t grain) const {
  grain = std::max<int64_t>(grain, 1);
  const int64_t units = total / grain + (total % grain != 0 ? 1 : 0);
  const int64_t each = units / count, extra = units % count;  // the first `extra` members get one unit more
  const int64_t first = each * index + std::min<int64_t>(index, extra);
  const int64_t last = first + each + (index < extra ? 1 : 0);
  return {std::min(first * grain, total), std::min(last * grain, total)};
}

struct ThreadPool::State {
  struct Slot {
    WaitWord ticket;
    std::thread thread;
  };

  explicit State(int threads)
      : spin(threads <= usable_cpu_count()), barrier(spin), slots(make_slots(threads)) {}

  static std::vector<Slot> make_slots(int threads) {
    return std::vector<Slot>(static_cast<size_t>(threads - 1));
  }

  void work(int index) {
    inside_team = true;
    WaitWord& ticket = slots[static_cast<size_t>(index - 1)].ticket;
    for (uint32_t seen = 0;; ++seen) {
      ticket.wait_while(seen, spin);
      if (stopping.load(std::memory_order_relaxed)) return;  // ordered by the ticket
      run_member(index);
      if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) done.advance();
    }
  }

  void run_member(int index) {
    try {
      (*body)(Worker{index, members, &barrier});
    } catch (const TeamFailed&) {
      // another member threw: its exception is the one to tell
    } catch (...) {
      {
        const std::lock_guard lock(error_mutex);
        if (error == nullptr) error = std::current_exception();
      }
      barrier.fail();
    }
  }

  void stop() {
    stopping.store(true, std::memory_order_relaxed);
    for (Slot& slot : slots) {
      if (!slot.thread.joinable()) continue;
      slot.ticket.advance();
      slot.thread.join();
    }
  }

  const bool spin;
  TeamBarrier barrier;
  std::vector<Slot> slots;
  std::atomic<bool> stopping{false};
  TurnQueue turns;
  // The job. Written by the caller who has the turn while no member runs.
  const std::function<void(const Worker&)>* body = nullptr;
  int members = 1;
  std::exception_ptr error;
  std::mutex error_mutex;
  alignas(kCacheLine) std::atomic<int> pending{0};  // workers that have not finished
  WaitWord done;
};

ThreadPool::ThreadPool(int threads)
    : state_(std::make_unique<State>(threads > 0 ? threads : usable_cpu_count())) {
  try {
    for (size_t i = 0; i < state_->slots.size(); ++i) {
      state_->slots[i].thread =
          std::thread([state = state_.get(), i] { state->work(static_cast<int>(i) + 1); });
    }
  } catch (...) {  // no more threads to be had: end those that started
    state_->stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  state_->stop();
}

int ThreadPool::size() const {
  return static_cast<int>(state_->slots.size()) + 1;
}

void ThreadPool::run(int members, const std::function<void(const Worker&)>& body) {
  members = std::min(members, size());
  if (members <= 1 || inside_team) return body(Worker{});

  State& state = *state_;
  state.turns.enter();
  state.body = &body;
  state.members = members;
  state.barrier.start(static_cast<uint32_t>(members));
  state.pending.store(members - 1, std::memory_order_relaxed);
  const uint32_t before = state.done.value();
  for (int i = 1; i < members; ++i) state.slots[static_cast<size_t>(i - 1)].ticket.advance();

  inside_team = true;
  state.run_member(0);
  inside_team = false;
  state.done.wait_while(before, state.spin);

  const std::exception_ptr error = std::exchange(state.error, nullptr);
  state.turns.leave();
  if (error != nullptr) std::rethrow_exception(error);
}

void ThreadPool::parallel_for(int64_t total, int64_t grain,
                              const std::function<void(int64_t begin, int64_t end)>& body) {
  if (total <= 0) return;
  const int64_t pieces = std::max<int64_t>(1, total / std::max<int64_t>(grain, 1));
  run(static_cast<int>(std::min<int64_t>(pieces, size())), [&](const Worker& worker) {
    const Worker::Range range = worker.slice(total);
    if (range.begin < range.end) body(range.begin, range.end);
  });
}

}  // namespace lathe
