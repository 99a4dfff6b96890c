// SPDX-License-Identifier: Apache-2.0
//
// How a team starts, meets, shares work and ends.
//
// start: each worker has a ticket on its own cache line; the caller writes the number of the run on the
// tickets of the members it wants, and wakes those that sleep. A worker that is not wanted is not disturbed.
//
// barrier: each member has a word on its own cache line that says how far it has come (run, barrier). In a
// small team everybody writes his own word and reads the others': one hand-over of a cache line, half of what
// a common counter costs. In a big team member 0 reads all words and then releases the others.
//
// share: each piece has a word that says (round, portions done, taken by its member, taken by others). A
// member takes the portions of its own piece from the front, then those of other pieces from the back, then
// waits until all are done. Portions shrink, so that cores of one speed rarely take anything from one
// another, and one that is half as fast again as the other gets that much more to do. (A virtual core whose
// hardware thread has a busy neighbour runs 1.5 times slower for some milliseconds to seconds: with fixed
// halves, MobileNetV2 on two such cores took 4.0 ms instead of 2.7.) Rounds end when their pieces are done,
// not when everybody was there, so a member that lost its CPU between two portions costs nothing but its
// help; one that lost it inside of a portion is fetched to a CPU that the team has (placement.h). All pieces
// of a round are done before anybody begins the next, so a member that comes late finds every piece of its
// round done and takes nothing.
//
// end: a member that leaves, in whatever way, writes a word that is greater than that of any barrier of this
// run; the caller waits for all of them. Only then may the job change, so a slow member never sees the next
// one.
//
// All wait in the same way: spin for a bounded time, then sleep in the kernel (wait_word.h). Sleeping rather
// than yielding matters when two members share a core while another is idle: a scheduler looks for an idle
// core when it wakes a thread, not when a thread yields, and two members that only yield to each other were
// seen to stay together for seconds. A pool with more threads than cores does not spin at all.
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu_count.h"
#include "base/error.h"
#include "base/no_threads.h"
#include "base/thread_placement.h"
#include "base/wait_word.h"

namespace lathe {
namespace {

using std::chrono::microseconds;

// Longer than the gaps between the layers of a network and between inferences of a benchmark loop, shorter
// than anything a user would notice as load. Waking a sleeping thread costs 5 to 50 us.
constexpr microseconds kSpinTime{40};
// Who sleeps looks after that time whether the other one runs, and takes that time to see. A member that lost
// its CPU for less comes back by itself, or the scheduler moves it to the CPU that its sleeping team mate has
// left.
constexpr microseconds kNap{150}, kGlance{5};
// Pauses before a portion is taken of a piece that nobody has begun: twice what a hand-over between two cores
// takes.
constexpr int kGrace = 32;

// Leaves a body whose team has failed. Not an Error: nobody but run() may catch it.
struct TeamFailed {};

// Nested calls must find out that they are nested, whichever pool they use.
thread_local bool inside_team = false;

}  // namespace

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

// The team that runs, and its job. Written by the caller who has the turn, while no member runs.
class TeamBarrier {
 public:
  using Body = std::function<void(const Worker&)>;

  TeamBarrier(int threads, bool spin)
      : spin_(spin),
        placement_(threads, spin),
        words_(static_cast<size_t>(threads)),
        pieces_(static_cast<size_t>(threads)),
        holders_(static_cast<size_t>(threads)),
        rounds_(static_cast<size_t>(threads)) {}

  // Returns the number of the run.
  uint64_t start(const Body& body, int members) {
    body_ = &body;
    members_ = members;
    failed_.store(false, std::memory_order_relaxed);
    for (int i = 0; i < members; ++i) pieces_[static_cast<size_t>(i)].reset();
    placement_.begin(0);
    return ++run_;
  }

  void run_member(int index) {
    rounds_[static_cast<size_t>(index)].number = 0;
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
    placement_.arrive(index);
    mine.set(at);
    placement_.make_room(index);
    const bool small = members_ <= kSmallTeam;
    bool slept = false;
    if (small || index == 0) slept = wait_for_others(index, at);
    if (!small && index == 0) release_.set(at);
    if (!small && index != 0) slept = wait_for(index, release_, at, [] { return 0; });
    if (slept) placement_.settle(index, members_);
    if (failed_.load(std::memory_order_acquire)) throw TeamFailed{};
  }

  void share(int index, int pieces, const std::function<void(const Worker&)>& body) {
    const uint64_t round = ++rounds_[static_cast<size_t>(index)].number;
    check(pieces <= members_, "share: more pieces than members");
    placement_.arrive(index);
    for (int i = 0; i < members_; ++i) {
      Worker worker{.index = index, .count = members_, .piece = (index + i) % members_};  // its own first
      if (worker.piece >= pieces) continue;
      if (i > 0) give_time(worker.piece, round);
      while (take(worker, round)) {
        do_portion(worker, body);
        worker.follows = i == 0;
      }
    }
    bool slept = false;
    for (int piece = 0; piece < pieces; ++piece)
      if (wait_for(index, pieces_[static_cast<size_t>(piece)], done(round), [&] { return holder(piece); }))
        slept = true;
    if (slept) placement_.settle(index, members_);
    if (failed_.load(std::memory_order_acquire)) throw TeamFailed{};
  }

  // The caller, after its own part: waits for the others and gives the first exception of the run.
  std::exception_ptr finish() {
    wait_for_others(0, left_word());
    return std::exchange(error_, nullptr);
  }

  void worker_woke(int index, bool slept) {
    placement_.begin(index);
    if (slept) placement_.settle(index, members_);
  }

 private:
  static constexpr int kBarrierBits = 24;
  static constexpr int kSmallTeam = 8;
  // The word of a piece: the round, and below it how many portions are done, taken from the front, and taken
  // from the back.
  static constexpr int kRoundBits = 24;
  static constexpr uint64_t kCountMask = 255, kDone = uint64_t{1} << 16, kFront = 1 << 8, kBack = 1;
  static uint64_t done(uint64_t round) { return (round << kRoundBits) + Worker::kPortions * kDone; }

  // A piece's own member has a moment to begin it.
  void give_time(int piece, uint64_t round) const {
    for (int i = 0; spin_ && i < kGrace; ++i) {
      if (pieces_[static_cast<size_t>(piece)].reached((round << kRoundBits) + 1)) return;
      pause_cpu();
    }
  }
  // Takes a portion of the worker's piece: from the front if it is its own. False: none is left.
  bool take(Worker& worker, uint64_t round) {
    WaitWord& word = pieces_[static_cast<size_t>(worker.piece)];
    const bool own = worker.piece == worker.index;
    for (uint64_t state = word.value();;) {
      const uint64_t now = std::max(state, round << kRoundBits);  // nobody has begun this round
      const auto front = static_cast<int>(now / kFront & kCountMask),
                 back = static_cast<int>(now & kCountMask);
      if (now >= done(round) || front + back == Worker::kPortions) return false;
      if (!word.replace(state, now + (own ? kFront : kBack))) continue;
      worker.portion = own ? front : Worker::kPortions - 1 - back;
      return true;
    }
  }
  void do_portion(const Worker& worker, const std::function<void(const Worker&)>& body) {
    WaitWord& word = pieces_[static_cast<size_t>(worker.piece)];
    std::atomic<int>& holder = holders_[static_cast<size_t>(worker.piece)].of[worker.portion];
    holder.store(worker.index, std::memory_order_relaxed);
    const auto finish = [&] {
      holder.store(kNobody, std::memory_order_relaxed);
      word.add(kDone);
    };
    try {
      body(worker);
    } catch (...) {
      failed_.store(true, std::memory_order_release);  // before the others see the portion done
      finish();
      throw;
    }
    finish();
    placement_.make_room(worker.index);
  }
  // Somebody who has a portion of the piece in hand.
  int holder(int piece) const {
    for (const std::atomic<int>& holder : holders_[static_cast<size_t>(piece)].of)
      if (const int index = holder.load(std::memory_order_relaxed); index != kNobody) return index;
    return kNobody;
  }

  uint64_t left_word() const { return ((run_ + 1) << kBarrierBits) - 1; }

  bool wait_for_others(int index, uint64_t target) {
    bool slept = false;
    for (int i = 0; i < members_; ++i)
      if (i != index && wait_for(index, words_[static_cast<size_t>(i)], target, [i] { return i; }))
        slept = true;
    return slept;
  }
  // Waits for a word that the member `writer()` is going to write; true when this thread had to sleep for it.
  template <class Writer>
  bool wait_for(int index, WaitWord& word, uint64_t target, const Writer& writer) {
    if (word.reached(target)) return false;
    if (!spin_) {
      word.sleep_until(target);
      return true;
    }
    const int first = writer();
    if ((first == kNobody || !placement_.shares_cpu(first)) && word.spin_until(target, kSpinTime))
      return false;
    while (!word.sleep_until(target, kNap)) {
      const int other = writer();
      if (other != kNobody &&
          placement_.stands_still(other, [&] { return word.spin_until(target, kGlance); }))
        placement_.fetch(index, other);
    }
    return true;
  }
  // Who has left counts as arrived at every barrier: whoever waits goes on, and sees `failed_` if that was
  // the reason.
  void leave(int index) {
    const uint64_t word = left_word();
    if (index != 0) placement_.end(index);
    if (index == 0) release_.set(word);
    words_[static_cast<size_t>(index)].set(word);
    if (index != 0) placement_.make_room(index);
  }

  // What every member reads at every barrier shares a line that nobody writes during a run.
  alignas(kCacheLine) const Body* body_ = nullptr;
  uint64_t run_ = 0;
  int members_ = 1;
  const bool spin_;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::mutex error_mutex_;
  ThreadPlacement placement_;
  WaitWord release_;
  std::vector<WaitWord> words_, pieces_;
  static constexpr int kNobody = -1;
  struct alignas(kCacheLine) Holders {
    std::atomic<int> of[Worker::kPortions] = {kNobody, kNobody, kNobody, kNobody};
  };
  std::vector<Holders> holders_;  // by piece: who has which portion in hand
  struct alignas(kCacheLine) Round {
    uint64_t number = 0;  // how many rounds of share() the member has begun in this run
  };
  std::vector<Round> rounds_;
};

void Worker::barrier() const {
  if (barrier_ != nullptr) barrier_->arrive_and_wait(index);
}

void Worker::share(int pieces, const std::function<void(const Worker&)>& body) const {
  if (barrier_ != nullptr) return barrier_->share(index, pieces, body);
  for (int i = 0; i < pieces; ++i) body({.count = pieces, .piece = i});
}

Worker::Range Worker::slice(int64_t total, int64_t grain, int64_t least) const {
  grain = std::max<int64_t>(grain, 1);
  const int64_t units = total / grain + (total % grain != 0 ? 1 : 0);
  const int64_t each = units / count, extra = units % count;  // the first `extra` members get one unit more
  const int64_t mine = each + (piece < extra ? 1 : 0);
  const int64_t first = each * piece + std::min<int64_t>(piece, extra), last = first + mine;
  // What is left of the piece after so many portions.
  const auto left = [&](int portions) {
    if (portions == 0) return mine;
    return portions == kPortions ? 0 : (mine >> portions) / least * least;
  };
  const int64_t begin = portion == kWhole ? first : last - left(portion);
  const int64_t end = portion == kWhole ? last : last - left(portion + 1);
  return {std::min(begin * grain, total), std::min(end * grain, total)};
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
      const bool slept = wait_for_ticket(ticket, seen + 1);
      seen = ticket.value();  // now: when the job is done, the ticket may already name the next one
      if (stopping.load(std::memory_order_relaxed)) return;  // ordered by the ticket
      team.worker_woke(index, slept);
      team.run_member(index);
    }
  }

  bool wait_for_ticket(WaitWord& ticket, uint64_t number) const {
    if (ticket.reached(number) || (spin && ticket.spin_until(number, kSpinTime))) return false;
    ticket.sleep_until(number);
    return true;
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
  } catch (const std::system_error& error) {  // no more threads to be had: end those that started
    state_->stop();
    throw_no_threads(size(), error);
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
