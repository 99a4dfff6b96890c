// SPDX-License-Identifier: Apache-2.0
#include "base/thread_placement.h"

#include <time.h>

#include "base/cpu_count.h"

namespace lathe {

ThreadPlacement::ThreadPlacement(int threads, bool enabled)
    : enabled_(enabled), places_(static_cast<size_t>(threads)) {}

void ThreadPlacement::begin(int index) {
  at(index).fetched_from.store(kNowhere, std::memory_order_relaxed);
  at(index).thread.store(pthread_self(), std::memory_order_relaxed);
  at(index).cpu.store(current_cpu(), std::memory_order_release);
}

void ThreadPlacement::arrive(int index) {
  const int now = current_cpu();
  if (at(index).cpu.load(std::memory_order_relaxed) != now)
    at(index).cpu.store(now, std::memory_order_relaxed);
}

void ThreadPlacement::end(int index) {
  at(index).cpu.store(kNowhere, std::memory_order_relaxed);
}

void ThreadPlacement::settle(int index, int members) {
  if (!enabled_) return;
  const int now = current_cpu();
  std::vector<int> taken;
  bool shared = false;
  for (int i = 0; i < members; ++i) {
    const int cpu = at(i).cpu.load(std::memory_order_relaxed);
    if (i == index || cpu == kNowhere) continue;
    taken.push_back(cpu);
    // Of two on one CPU the one with the higher index goes, so that they do not meet again elsewhere.
    shared = shared || (i < index && cpu == now);
  }
  if (shared) leave_cpus(taken);
  arrive(index);
}

void ThreadPlacement::make_room(int index) {
  if (at(index).fetched_from.load(std::memory_order_relaxed) == kNowhere) return;
  go_to_cpu(at(index).fetched_from.exchange(kNowhere, std::memory_order_relaxed));
}

bool ThreadPlacement::shares_cpu(int other) const {
  return enabled_ && at(other).cpu.load(std::memory_order_relaxed) == current_cpu();
}

void ThreadPlacement::fetch(int index, int other) {
  const int from = at(other).cpu.load(std::memory_order_acquire), here = current_cpu();
  if (from == kNowhere || from == here || !bring_here(at(other).thread.load(std::memory_order_relaxed)))
    return;
  at(other).cpu.store(here, std::memory_order_relaxed);
  if (index == 0)
    at(other).fetched_from.store(from, std::memory_order_relaxed);
  else
    go_to_cpu(from);
}

int64_t ThreadPlacement::cpu_time(int member) const {
  clockid_t clock{};
  timespec time{};
  if (!enabled_ || at(member).cpu.load(std::memory_order_acquire) == kNowhere ||
      pthread_getcpuclockid(at(member).thread.load(std::memory_order_relaxed), &clock) != 0 ||
      clock_gettime(clock, &time) != 0)
    return -1;
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace lathe
