// SPDX-License-Identifier: Apache-2.0
//
// The one pool of threads. A run is a team: every member calls the same function with its index and walks the
// whole program, meeting the others at barriers. That costs one wake per inference instead of one per layer.
//
// The caller is member 0. Workers spin for a short bounded time and then sleep. One team runs at a time; a
// second caller waits for its turn (whole runs queue), so two spinning teams never fight over the cores. When
// the machine is busy a barrier sleeps instead of spinning on, and what a slow or absent member has not begun
// is done by others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace lathe {

// A barrier for one team. Spins briefly, then sleeps.
class TeamBarrier;

// What a member of a team knows about itself.
struct Worker {
  int index = 0;  // 0 .. count-1; 0 is the caller
  int count = 1;
  TeamBarrier* barrier_ = nullptr;  // null when count == 1, and inside share()
  // What share() has handed out: portion `portion` of piece `piece`. Without share(): all of the member's own
  // piece.
  int piece = index;
  int portion = kWhole;
  bool follows = false;  // this member did the portion before it just now

  static constexpr int kWhole = -1;
  // A piece has halves of what is left: 1/2, 1/4, 1/8, 1/8.
  static constexpr int kPortions = 4;

  // Every member must call it the same number of times. When a member throws, the others leave the body at
  // their next barrier (by an exception of our own that run() swallows): nobody waits for ever or works on
  // half-made data.
  void barrier() const;

  // Calls the body once for each portion of the pieces 0 .. pieces - 1, on some member, and returns when all
  // are done. Piece i is member i's, which begins with the first portion; who has finished its own takes the
  // last ones of the others, so a member whose core is slower, or that the machine keeps away, does less.
  // Collective like barrier(); a member that comes late passes through what was done without it. The body's
  // worker has the index of who runs it. Without a team: whole pieces in order.
  void share(int pieces, const std::function<void(const Worker& worker)>& body) const;

  // The range of [0, total) that belongs to this worker: pieces are contiguous and differ by at most one
  // `grain`; their portions too, and all but the first one are multiples of `least` grains, or empty where a
  // piece is too small to be cut.
  struct Range {
    int64_t begin = 0, end = 0;
  };
  Range slice(int64_t total, int64_t grain = 1, int64_t least = 1) const;
  // `least` of work that is not cut: a portion would repeat what is done once for all of the piece.
  static constexpr int64_t kUncut = INT64_MAX;
};

class ThreadPool {
 public:
  // threads <= 0: min(affinity mask, cgroup quota, physical cores).
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  // Runs `body(worker)` on min(members, size()) threads and waits for all of them. The first exception is
  // rethrown here after every member has returned or left. With one member, or called from inside a team (of
  // any pool), it runs inline on the calling thread and waits for nobody. Callers are served in the order in
  // which they came.
  void run(int members, const std::function<void(const Worker&)>& body);
  // Splits [0, total) over the whole pool in contiguous pieces of at least `grain`.
  void parallel_for(int64_t total, int64_t grain,
                    const std::function<void(int64_t begin, int64_t end)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// min(affinity mask, cgroup v1/v2 CPU quota rounded up, physical cores), at least 1.
int usable_cpu_count();

}  // namespace lathe
