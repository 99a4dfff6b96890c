// SPDX-License-Identifier: Apache-2.0
//
// On which CPUs the members of a team run, and what to do when they stand in each other's way. Nobody is
// pinned: threads are moved at the moment when it helps, and may run afterwards wherever they could before.
//
// Two things go wrong on machines that are not ours alone.
//
// Two members on one CPU while another is idle: a scheduler that saves power wakes a thread there, and the
// two take turns. The member that finds itself there after a sleep moves away.
//
// A member that lost its CPU to another process in the middle of its work: the others would wait for a whole
// time slice (4 ms and more) although they have CPUs that they do not use. Who waits for such a member
// fetches it to its own CPU and makes room there: a worker goes where the member came from and queues up
// behind the other process. The caller stays, because everybody waits for it at the end; it sleeps, and the
// fetched member goes back by itself when its piece is done. Whether a thread runs, its CPU clock tells: it
// stands still for one that does not.
#pragma once

#include <pthread.h>

#include <atomic>
#include <vector>

#include "base/wait_word.h"

namespace lathe {

class ThreadPlacement {
 public:
  // `enabled`: there is a CPU for each member. Otherwise nobody is moved.
  ThreadPlacement(int threads, bool enabled);

  // Each member about itself: at the begin of a run, before a piece of work, and at the end.
  void begin(int index);
  void arrive(int index);
  void end(int index);
  // After a sleep: moves away from a CPU that another member runs on.
  void settle(int index, int members);
  // After a piece of work: goes back where it was fetched from.
  void make_room(int index);

  // Whether spinning for `other` would only keep it from running.
  bool shares_cpu(int other) const;
  // Looks at the CPU clock of `other` twice, calling `wait` in between, and says whether it stood still.
  // `wait` returns true when there is nothing left to wait for.
  template <class Wait>
  bool stands_still(int other, const Wait& wait) const;
  // Brings `other` to this thread's CPU and makes room for it; the caller of this is to sleep next.
  void fetch(int index, int other);

 private:
  static constexpr int kNowhere = -1;
  struct alignas(kCacheLine) Place {
    std::atomic<pthread_t> thread{};
    std::atomic<int> cpu{kNowhere};  // where it ran when it last looked; kNowhere: not in this run
    std::atomic<int> fetched_from{kNowhere};
  };
  Place& at(int index) { return places_[static_cast<size_t>(index)]; }
  const Place& at(int index) const { return places_[static_cast<size_t>(index)]; }
  // Nanoseconds of computing; -1 when that is not known.
  int64_t cpu_time(int member) const;

  const bool enabled_;
  std::vector<Place> places_;
};

template <class Wait>
bool ThreadPlacement::stands_still(int other, const Wait& wait) const {
  constexpr int64_t kMovedNs = 1000;
  const int64_t before = cpu_time(other);
  if (wait() || before < 0) return false;
  return cpu_time(other) - before < kMovedNs;
}

}  // namespace lathe
