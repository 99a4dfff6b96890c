// SPDX-License-Identifier: Apache-2.0
//
// How a team starts, meets and ends.
//
// start: each worker has a ticket on its own cache line; the caller writes the number of the run on the tickets of
// the members it wants, and wakes those that sleep. A worker that is not wanted is not disturbed.
//
// barrier: each member has a word on its own cache line that says how far it has come (run, barrier). In a small
// team everybody writes his own word and reads the others': one hand-over of a cache line, half of what a common
// counter costs. In a big team member 0 reads all words and then releases the others.
//
// end: a member that leaves, in whatever way, writes a word that is greater than that of any barrier of this run;
// the caller waits for all of them. Only then may the job change, so a slow member never sees the next one.
//
// All three wait in the same way: spin for a bounded time, then sleep in the kernel. Spinning makes a hand-over
// cost a fraction of a microsecond; the bound makes a busy machine cost its share only: whoever waits for a member
// that lost its core soon leaves its own core to that member. Sleeping rather than yielding matters when two
// members share a core while another is idle: a scheduler looks for an idle core when it wakes a thread, not when
// a thread yields, and two members that only yield to each other were seen to stay together for seconds. A pool
// with more threads than cores does not spin at all.
//
// A waiter announces itself (`sleepers`) before it looks a last time, and whoever changes the word looks at
// `sleepers` after the change, all sequentially consistent: one of the two sees the other, so no wake-up is lost,
// and nobody makes a system call when nobody sleeps.
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

#include "base/cpu_count.h"

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

// A number on its own cache line that only grows, and that threads wait for.
class alignas(kCacheLine) WaitWord {
 public:
  uint64_t value() const { return value_.load(std::memory_order_acquire); }

  // Wakes all sleepers.
  void set(uint64_t value) {
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    { const std::lock_guard lock(mutex_); }  // a sleeper that has looked at the number is asleep by now
    wake_.notify_all();
  }

  // Returns when the number has reached `target`; true when the thread had to sleep for it.
  bool wait_for(uint64_t target, bool spin) {
    if (reached(target) || (spin && spin_for(target))) return false;
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_.wait(lock, [&] { return has_reached(value_.load(std::memory_order_seq_cst), target); });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

 private:
  // By difference, so that it goes on working when the numbers wrap around after some months of short runs.
  static bool has_reached(uint64_t value, uint64_t target) {
    return static_cast<int64_t>(value - target) >= 0;
  }
  bool reached(uint64_t target) const { return has_reached(value(), target); }

  bool spin_for(uint64_t target) const {
    // Reading the clock costs as much as a pause or two, so the first rounds go without.
    for (int i = 0; i < 64; ++i) {
      pause_cpu();
      if (reached(target)) return true;
    }
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 16; ++i) {
        pause_cpu();
        if (reached(target)) return true;
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  std::atomic<uint64_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
  alignas(kCacheLine) std::mutex mutex_;
  std::condition_variable wake_;
};

// Keeps the members of a team on different CPUs. A scheduler that saves power may wake a thread on the CPU of another
// member although one is idle, and the two would then take turns, one spinning time at each barrier. The member that
// notices moves away; it is not pinned. It looks only after a sleep, because that is when a thread gets a new place.
class Placement {
 public:
  // `enabled`: there is a CPU for each.
  Placement(int threads, bool enabled) : enabled_(enabled), cpus_(static_cast<size_t>(threads)) {}

  void settle(int index, int members, bool slept) {
    if (!enabled_) return;
    std::atomic<int>& mine = cpus_[static_cast<size_t>(index)];
    const int now = current_cpu();
    mine.store(now, std::memory_order_relaxed);
    if (!slept) return;
    std::vector<int> taken;
    bool shared = false;
    for (int i = 0; i < members; ++i) {
      if (i == index) continue;
      taken.push_back(cpus_[static_cast<size_t>(i)].load(std::memory_order_relaxed));
      // Of two on one CPU the one with the higher index goes, so that they do not meet again elsewhere.
      shared = shared || (i < index && taken.back() == now);
    }
    if (!shared) return;
    leave_cpus(taken);
    mine.store(current_cpu(), std::memory_order_relaxed);
  }

 private:
  const bool enabled_;
  std::vector<std::atomic<int>> cpus_;  // where each ran when it last looked
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

// The team that runs, and its job. Written by the caller who has the turn, while no member runs.
class TeamBarrier {
 public:
  using Body = std::function<void(const Worker&)>;

  TeamBarrier(int threads, bool spin)
      : spin_(spin), placement_(threads, spin), words_(static_cast<size_t>(threads)) {}

  // Returns the number of the run.
  uint64_t start(const Body& body, int members) {
    body_ = &body;
    members_ = members;
    failed_.store(false, std::memory_order_relaxed);
    placement_.settle(0, members, false);
    return ++run_;
  }

  void run_member(int index) {
    try {
      (*body_)(Worker{index, members_, this});
    } catch (const TeamFailed&) {
      // another member threw: its exception is the one to tell
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
    }
    leave(index);
  }

  void arrive_and_wait(int index) {
    WaitWord& mine = words_[static_cast<size_t>(index)];
    const uint64_t first = run_ << kBarrierBits;
    const uint64_t at = std::max(mine.value(), first) + 1;  // an older run's word is smaller
    mine.set(at);
    const bool small = members_ <= kSmallTeam;
    bool slept = false;
    if (small || index == 0) slept = wait_for_others(index, at);
    if (!small && index == 0) release_.set(at);
    if (!small && index != 0) slept = release_.wait_for(at, spin_);
    if (slept) placement_.settle(index, members_, true);
    if (failed_.load(std::memory_order_acquire)) throw TeamFailed{};
  }

  // The caller, after its own part: waits for the others and gives the first exception of the run.
  std::exception_ptr finish() {
    wait_for_others(0, left_word());
    return std::exchange(error_, nullptr);
  }

  void worker_woke(int index, bool slept) { placement_.settle(index, members_, slept); }

 private:
  static constexpr int kBarrierBits = 24;
  static constexpr int kSmallTeam = 8;

  uint64_t left_word() const { return ((run_ + 1) << kBarrierBits) - 1; }

  bool wait_for_others(int index, uint64_t target) {
    bool slept = false;
    for (int i = 0; i < members_; ++i) {
      if (i != index && words_[static_cast<size_t>(i)].wait_for(target, spin_)) slept = true;
    }
    return slept;
  }
  // Who has left counts as arrived at every barrier: whoever waits goes on, and sees `failed_` if that was the reason.
  void leave(int index) {
    const uint64_t word = left_word();
    if (index == 0) release_.set(word);
    words_[static_cast<size_t>(index)].set(word);
  }

  // What every member reads at every barrier shares a line that nobody writes during a run.
  alignas(kCacheLine) const Body* body_ = nullptr;
  uint64_t run_ = 0;
  int members_ = 1;
  const bool spin_;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::mutex error_mutex_;
  Placement placement_;
  WaitWord release_;
  std::vector<WaitWord> words_;
};

void Worker::barrier() const {
  if (barrier_ != nullptr) barrier_->arrive_and_wait(index);
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
      : spin(threads <= usable_cpu_count()), team(threads, spin), slots(static_cast<size_t>(threads - 1)) {}

  void work(int index) {
    inside_team = true;
    WaitWord& ticket = slots[static_cast<size_t>(index - 1)].ticket;
    for (uint64_t seen = 0;;) {
      const bool slept = ticket.wait_for(seen + 1, spin);
      seen = ticket.value();  // now: when the job is done, the ticket may already name the next one
      if (stopping.load(std::memory_order_relaxed)) return;  // ordered by the ticket
      team.worker_woke(index, slept);
      team.run_member(index);
    }
  }

  void stop() {
    stopping.store(true, std::memory_order_relaxed);
    for (Slot& slot : slots) {
      if (!slot.thread.joinable()) continue;
      slot.ticket.set(slot.ticket.value() + 1);
      slot.thread.join();
    }
  }

  const bool spin;
  TeamBarrier team;
  std::vector<Slot> slots;
  std::atomic<bool> stopping{false};
  TurnQueue turns;
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
  const uint64_t run = state.team.start(body, members);
  for (int i = 1; i < members; ++i) state.slots[static_cast<size_t>(i - 1)].ticket.set(run);
  inside_team = true;
  state.team.run_member(0);
  inside_team = false;
  const std::exception_ptr error = state.team.finish();
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
