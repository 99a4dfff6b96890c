// SPDX-License-Identifier: Apache-2.0
//
// Run under the thread sanitizer too. The stress tests use more threads than a small machine has cores on
// purpose: that is where lost wake-ups and collapses show.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lathe {
namespace {

TEST(WorkerSlice, CoversEverythingOnce) {
  for (int count : {1, 2, 3, 7}) {
    for (int64_t total : {0, 1, 5, 64, 1000}) {
      for (int64_t grain : {1, 8, 64}) {
        int64_t at = 0, smallest = total, biggest = 0;
        for (int index = 0; index < count; ++index) {
          const Worker::Range range = Worker{index, count}.slice(total, grain);
          EXPECT_EQ(range.begin, at);
          EXPECT_TRUE(range.begin % grain == 0 || range.begin == total);
          at = range.end;
          smallest = std::min(smallest, range.end - range.begin);
          biggest = std::max(biggest, range.end - range.begin);
        }
        EXPECT_EQ(at, total);
        EXPECT_LE(biggest - smallest, grain * 2 - 1);  // one grain, and the last piece may be a part of one
      }
    }
  }
}

TEST(WorkerSlice, HugeTotalsDoNotOverflow) {
  const int64_t total = INT64_MAX;
  EXPECT_EQ((Worker{0, 3}.slice(total).begin), 0);
  EXPECT_EQ((Worker{2, 3}.slice(total).end), total);
}

TEST(ThreadPool, EveryMemberRunsOnce) {
  ThreadPool pool(4);
  EXPECT_EQ(pool.size(), 4);
  for (int members = 1; members <= 6; ++members) {
    std::vector<std::atomic<int>> seen(8);
    std::atomic<int> count{0};
    pool.run(members, [&](const Worker& worker) {
      seen[static_cast<size_t>(worker.index)]++;
      count = worker.count;
    });
    EXPECT_EQ(count, std::min(members, 4));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i < std::min(members, 4) ? 1 : 0);
  }
}

TEST(ThreadPool, CallerIsMemberZero) {
  ThreadPool pool(2);
  std::thread::id zero;
  pool.run(2, [&](const Worker& worker) {
    if (worker.index == 0) zero = std::this_thread::get_id();
  });
  EXPECT_EQ(zero, std::this_thread::get_id());
}

TEST(ThreadPool, DefaultSizeIsWhatIsUsable) {
  EXPECT_EQ(ThreadPool().size(), usable_cpu_count());
}

TEST(ThreadPool, BarrierOrdersPlainMemory) {
  constexpr int kMembers = 3, kRounds = 2000;
  ThreadPool pool(kMembers);
  std::vector<int> cells(kMembers, 0);
  std::atomic<int> wrong{0};
  pool.run(kMembers, [&](const Worker& worker) {
    for (int round = 1; round <= kRounds; ++round) {
      cells[static_cast<size_t>(worker.index)] = round;
      worker.barrier();
      for (const int cell : cells) wrong += cell != round;
      worker.barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, ParallelForCoversTheRangeInPieces) {
  ThreadPool pool(3);
  for (int64_t total : {0, 1, 2, 99, 1000}) {
    std::vector<std::atomic<int>> hits(static_cast<size_t>(total));
    std::atomic<int64_t> smallest{total};
    pool.parallel_for(total, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)]++;
      if (end - begin < smallest) smallest = end - begin;
    });
    for (const auto& hit : hits) EXPECT_EQ(hit, 1);
    EXPECT_GE(smallest, std::min<int64_t>(total, 10));
  }
}

TEST(ThreadPool, SharedPiecesAreDoneOnceAndInOrderOfRounds) {
  constexpr int kMembers = 3, kRounds = 3000, kCells = 20;
  ThreadPool pool(kMembers);
  std::vector<int> cells(kCells, 0);  // plain: rounds order memory
  std::atomic<int> wrong{0};
  pool.run(kMembers, [&](const Worker& worker) {
    for (int round = 1; round <= kRounds; ++round) {
      worker.share(round % kMembers + 1, [&](const Worker&) {
        for (const int cell : cells) wrong += cell != round - 1;
      });
      worker.share(kMembers, [&](const Worker& part) {
        const Worker::Range own = part.slice(kCells);
        for (auto i = static_cast<size_t>(own.begin); i < static_cast<size_t>(own.end); ++i) {
          wrong += cells[i] != round - 1;
          cells[i] = round;
        }
      });
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cells, std::vector<int>(kCells, kRounds));
}

TEST(ThreadPool, ASinglePieceIsWaitedForByAll) {
  ThreadPool pool(2);
  int64_t cell = 0;  // plain
  std::atomic<int> wrong{0};
  pool.run(2, [&](const Worker& worker) {
    for (int64_t round = 1; round <= 20000; ++round) {
      worker.share(1, [&](const Worker& part) {
        if (part.portion == 0) cell = round;
      });
      worker.share(2, [&](const Worker&) { wrong += cell != round; });
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, SharedPiecesDoNotWaitForAMemberThatDoesNotCome) {
  ThreadPool pool(2);
  std::atomic<int> rounds{0};
  std::atomic<bool> over{false};
  pool.run(2, [&](const Worker& worker) {
    while (worker.index == 1 && !over)
      std::this_thread::yield();  // kept away until the other has done everything
    for (int i = 0; i < 100; ++i) {
      worker.share(2, [&](const Worker&) { ++rounds; });
      if (worker.index == 0 && i == 99) over = true;
    }
  });
  EXPECT_EQ(rounds, 200 * Worker::kPortions);
}

TEST(ThreadPool, BarriersAndSharedPiecesMix) {
  ThreadPool pool(4);
  std::atomic<int> sum{0}, wrong{0};
  for (int run = 0; run < 200; ++run) {
    pool.run(4, [&](const Worker& worker) {
      const int before = sum;
      worker.barrier();
      worker.share(4, [&](const Worker& part) { sum += part.piece; });
      wrong += sum != before + 6 * Worker::kPortions;
      worker.barrier();
    });
  }
  EXPECT_EQ(sum, 200 * 6 * Worker::kPortions);
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, SharingAloneRunsAllPieces) {
  std::vector<int> order;
  Worker{}.share(3, [&](const Worker& part) {
    order.push_back(part.piece);
    EXPECT_EQ(part.index, 0);
    EXPECT_EQ(part.slice(9).end - part.slice(9).begin, 3);
  });
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(Worker, PortionsMakeUpThePiece) {
  for (const int64_t total : {0, 1, 7, 96, 197, 1000})
    for (const int64_t grain : {1, 16})
      for (const int64_t least : {int64_t{1}, int64_t{5}, Worker::kUncut}) {
        int64_t at = 0;
        for (int piece = 0; piece < 3; ++piece) {
          const Worker::Range whole = Worker{piece, 3}.slice(total, grain);
          EXPECT_EQ(whole.begin, at);
          for (int portion = 0; portion < Worker::kPortions; ++portion) {
            const Worker part{.index = 0, .count = 3, .piece = piece, .portion = portion};
            const Worker::Range range = part.slice(total, grain, least);
            EXPECT_EQ(range.begin, at);
            at = range.end;
            if (portion == 0 || range.end == range.begin) continue;
            EXPECT_NE(least, Worker::kUncut);
            EXPECT_GE(range.end - range.begin, least * grain - (range.end == total ? grain - 1 : 0));
          }
          EXPECT_EQ(whole.end, at);
        }
        EXPECT_EQ(at, total);
      }
}

TEST(ThreadPool, WhoFollowsDidThePortionBefore) {
  ThreadPool pool(3);
  std::vector<int> by(3 * Worker::kPortions);
  std::atomic<int> wrong{0};
  pool.run(3, [&](const Worker& worker) {
    for (int round = 0; round < 1000; ++round)
      worker.share(3, [&](const Worker& part) {
        const auto i = static_cast<size_t>(part.piece * Worker::kPortions + part.portion);
        if (part.follows) wrong += part.portion == 0 || by[i - 1] != 10 * round + part.index;
        by[i] = 10 * round + part.index;
      });
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, AThrowingPieceEndsTheRun) {
  ThreadPool pool(3);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> beyond{0};
    EXPECT_THROW(pool.run(3,
                          [&](const Worker& worker) {
                            for (int i = 0; i < 10; ++i)
                              worker.share(3, [&](const Worker& part) {
                                if (i == round % 10 && part.piece == round % 3)
                                  throw std::runtime_error("bad");
                              });
                            ++beyond;
                          }),
                 std::runtime_error);
    EXPECT_EQ(beyond, 0);
  }
}

TEST(ThreadPool, NestedRunsInline) {
  ThreadPool pool(2), other(2);
  std::atomic<int> inner{0};
  pool.run(2, [&](const Worker&) {
    pool.run(2, [&](const Worker& worker) { inner += worker.count; });
    other.parallel_for(100, 1,
                       [&](int64_t begin, int64_t end) { inner += begin == 0 && end == 100 ? 10 : 1000; });
  });
  EXPECT_EQ(inner, 22);
}

TEST(ThreadPool, OneMemberDoesNotWaitForATeam) {
  ThreadPool pool(2);
  std::atomic<bool> inside{false}, leave{false};
  std::thread busy([&] {
    pool.run(2, [&](const Worker&) {
      inside = true;
      while (!leave) std::this_thread::yield();
    });
  });
  while (!inside) std::this_thread::yield();
  int ran = 0;
  pool.run(1, [&](const Worker& worker) { ran = worker.count; });
  EXPECT_EQ(ran, 1);
  leave = true;
  busy.join();
}

TEST(ThreadPool, ExceptionIsRethrownAndThePoolGoesOn) {
  ThreadPool pool(3);
  for (int thrower = 0; thrower < 3; ++thrower) {
    EXPECT_THROW(pool.run(3,
                          [&](const Worker& worker) {
                            if (worker.index == thrower) throw std::runtime_error("bad");
                          }),
                 std::runtime_error);
    std::atomic<int> count{0};
    pool.run(3, [&](const Worker&) { ++count; });
    EXPECT_EQ(count, 3);
  }
  EXPECT_THROW(pool.run(1, [](const Worker&) { throw std::runtime_error("inline"); }), std::runtime_error);
}

TEST(ThreadPool, AThrowingMemberReleasesThoseAtBarriers) {
  ThreadPool pool(3);
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> beyond{0};
    try {
      pool.run(3, [&](const Worker& worker) {
        for (int i = 0; i < 20; ++i) {
          if (i == round % 20 && worker.index == round % 3)
            throw std::runtime_error("bad " + std::to_string(round));
          worker.barrier();
        }
        ++beyond;
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "bad " + std::to_string(round));
    }
    EXPECT_EQ(beyond, 0);  // nobody works on after a failure
  }
}

TEST(ThreadPool, ManyCallersTakeTurns) {
  ThreadPool pool(3);
  std::atomic<int> running{0}, overlaps{0}, total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        pool.run(3, [&](const Worker& worker) {
          if (worker.index == 0 && running.fetch_add(1) != 0) ++overlaps;
          worker.barrier();
          ++total;
          worker.barrier();
          if (worker.index == 0) running.fetch_sub(1);
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(total, 4 * 200 * 3);
}

TEST(ThreadPool, StressRunsBarriersSleepsAndSizes) {
  ThreadPool pool(5);
  int64_t expected = 0;
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 1500; ++round) {
    const int members = round % 5 + 1, barriers = round % 4;
    pool.run(members, [&](const Worker& worker) {
      for (int i = 0; i < barriers; ++i) worker.barrier();
      sum += worker.index;
    });
    expected += members * (members - 1) / 2;
    // Let the workers fall asleep now and then, at different depths of their waiting.
    if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round));
  }
  EXPECT_EQ(sum, expected);
}

TEST(ThreadPool, ComesAndGoes) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
    if (i % 2 == 0) pool.run(3, [](const Worker&) {});
  }
}

}  // namespace
}  // namespace lathe
