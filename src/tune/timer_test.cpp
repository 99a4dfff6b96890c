// SPDX-License-Identifier: Apache-2.0
#include "tune/timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tune/running_percentile.h"

namespace lathe {
namespace {

// Of the sorted numbers that of the nearest rank.
double percentile(std::vector<double> numbers, double fraction) {
  std::sort(numbers.begin(), numbers.end());
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(numbers.size())));
  return numbers[rank == 0 ? 0 : rank - 1];
}

double running_percentile(const std::vector<double>& numbers, double fraction) {
  RunningPercentile running(fraction);
  for (const double number : numbers) running.add(number);
  return running.value();
}

TEST(RunningPercentile, IsOfTheNearestRank) {
  EXPECT_EQ(running_percentile({5, 1, 4, 2, 3}, 0.2), 1);
  EXPECT_EQ(running_percentile({5, 1, 4, 2, 3}, 0.5), 3);
  EXPECT_EQ(running_percentile({5, 1, 4, 2, 3}, 1.0), 5);
  EXPECT_EQ(running_percentile({7}, 0.2), 7);
}

// A number that counts how often numbers are compared.
struct Counted {
  double value = 0;
  static inline int64_t comparisons = 0;
  bool operator<(const Counted& other) const { return ++comparisons, value < other.value; }
};

// In an order without pattern.
double scrambled(int64_t i) {
  return static_cast<double>(i * 7919 % 104729);
}

TEST(RunningPercentile, IsThePercentileOfWhatCame) {
  for (const double fraction : {0.0, 0.2, 0.35, 0.5, 1.0}) {
    RunningPercentile running(fraction);
    std::vector<double> all;
    for (int64_t i = 0; i < 200; ++i) {
      all.push_back(static_cast<double>(i * 37 % 50));  // with equal ones
      running.add(all.back());
      ASSERT_EQ(running.value(), percentile(all, fraction)) << fraction << " of " << all.size();
    }
    EXPECT_EQ(running.count(), all.size());
  }
}

// The work for each number grows with the logarithm of how many there are: 17 levels of a heap.
TEST(RunningPercentile, ComparesFewNumbersForEach) {
  constexpr int64_t kNumbers = 100000;
  RunningPercentile<Counted> running(0.35);
  Counted::comparisons = 0;
  for (int64_t i = 0; i < kNumbers; ++i) running.add({scrambled(i)});
  EXPECT_LT(Counted::comparisons, kNumbers * 60);
  EXPECT_EQ(running.count(), static_cast<size_t>(kNumbers));
}

// Two that nobody can tell apart run to the end.
TEST(Timer, ManyRepetitionsRunToTheEnd) {
  constexpr int kRepetitions = 100000;
  int64_t run = 0;
  const auto rival = [&] { return 1 + scrambled(++run) * 1e-9; };
  const std::vector<std::function<double()>> rivals = {rival, rival};
  const auto timings = time_interleaved(rivals, {.repetitions = kRepetitions, .limit_seconds = 1e9});
  EXPECT_EQ(timings[0].runs, kRepetitions);
  EXPECT_EQ(timings[1].runs, kRepetitions);
  EXPECT_EQ(run, 2 * (kRepetitions + 1));
  EXPECT_NEAR(timings[0].score_ms, 1 + 0.35 * 104729e-9, 2e-6);
  EXPECT_GE(timings[0].score_ms, timings[0].best_ms);
}

TEST(Timer, RivalsRunInTurn) {
  std::string order;
  const std::vector<std::function<double()>> rivals = {[&] { return order += 'a', 1.00; },
                                                       [&] { return order += 'b', 1.01; },
                                                       [&] { return order += 'c', 0.99; }};
  const auto timings = time_interleaved(rivals, {.repetitions = 4, .limit_seconds = 10});
  EXPECT_EQ(order, "abcabcabcabcabc");  // one warm-up round and four that count
  EXPECT_EQ(timings[1].runs, 4);
  EXPECT_EQ(timings[2].score_ms, 0.99);
}

TEST(Timer, HopelessRivalsLeave) {
  int slow_runs = 0, mediocre_runs = 0;
  const std::vector<std::function<double()>> rivals = {[&] { return ++slow_runs, 100.0; }, [] { return 1.0; },
                                                       [&] { return ++mediocre_runs, 1.5; }};
  const auto timings = time_interleaved(rivals, {.repetitions = 20, .limit_seconds = 10});
  EXPECT_EQ(slow_runs, 1);
  EXPECT_EQ(timings[0].score_ms, 100.0);
  EXPECT_LE(mediocre_runs, 6);
  EXPECT_EQ(timings[2].score_ms, 1.5);
}

TEST(Timer, EndsWhenTheLeaderIsClear) {
  int runs = 0;
  const std::vector<std::function<double()>> rivals = {[&] { return ++runs, 1.0; }, [] { return 1.06; }};
  time_interleaved(rivals, {.repetitions = 50, .limit_seconds = 10});
  EXPECT_EQ(runs, 6);
}

TEST(Timer, NoiseOnlyAdds) {
  int run = 0;
  const std::vector<std::function<double()>> rivals = {[&] { return ++run % 3 == 0 ? 1.0 : 1.5; },
                                                       [] { return 1.02; }};
  const auto timings = time_interleaved(rivals, {.repetitions = 20, .limit_seconds = 10});
  EXPECT_EQ(timings[0].score_ms, 1.0);
}

// The first run of the first rival, and then a second one, wait for another process's slice.
TEST(Timer, ARunThatWaitedDoesNotDecide) {
  for (const int waiting : {1, 2}) {
    int run = 0;
    const std::vector<std::function<double()>> rivals = {[&] { return ++run <= waiting ? 12.0 : 0.03; },
                                                         [] { return 0.04; }};
    const auto timings = time_interleaved(rivals, {.repetitions = 8, .limit_seconds = 10});
    EXPECT_EQ(timings[0].score_ms, 0.03);
  }
}

// What is slow by more than a slice leaves at once, what may have waited after three runs.
TEST(Timer, WhatIsSlowCostsFewRuns) {
  int slow_runs = 0, slower_runs = 0;
  const std::vector<std::function<double()>> rivals = {[] { return 1.0; }, [&] { return ++slow_runs, 20.0; },
                                                       [&] { return ++slower_runs, 50.0; }};
  const auto timings = time_interleaved(rivals, {.repetitions = 20, .limit_seconds = 10});
  EXPECT_EQ(slow_runs, 3);
  EXPECT_EQ(slower_runs, 1);
  EXPECT_EQ(timings[1].score_ms, 20.0);
}

// Alone, most of its first runs inside of slices.
TEST(Timer, ALoneRivalRunsOnWhileItsScoreIsFarAboveItsBest) {
  int run = 0;
  const std::vector<std::function<double()>> rivals = {[&] { return ++run <= 8 && run != 3 ? 3.0 : 0.03; }};
  const auto timings = time_interleaved(rivals, {.repetitions = 8, .limit_seconds = 10});
  EXPECT_EQ(timings[0].score_ms, 0.03);
  EXPECT_LE(run, 13);
  // One that never settles ends, too.
  int odd = 0;
  const std::vector<std::function<double()>> restless = {[&] { return ++odd % 8 == 2 ? 1.0 : 3.0; }};
  EXPECT_EQ(time_interleaved(restless, {.repetitions = 8, .limit_seconds = 10})[0].runs, 32);
}

// All start at a third of their speed, and the yardstick leaves before that ends.
TEST(Timer, TheYardstickRunsAgainAtTheEnd) {
  int runs = 0;
  const auto rival = [&](double ms) { return [&runs, ms] { return ++runs <= 8 ? 3 * ms : ms; }; };
  const std::vector<std::function<double()>> rivals = {rival(2.0), rival(1.0)};
  const auto alike = time_interleaved(rivals, {.repetitions = 20, .limit_seconds = 10, .yardstick = 0});
  EXPECT_EQ(alike[0].score_ms, 2.0);
  EXPECT_EQ(alike[1].score_ms, 1.0);
  runs = 0;
  EXPECT_EQ(time_interleaved(rivals, {.repetitions = 20, .limit_seconds = 10})[0].score_ms, 6.0);
}

TEST(Timer, TimeIsBounded) {
  int runs = 0;
  const std::vector<std::function<double()>> rivals = {[&] { return ++runs, 1.0; },
                                                       [&] { return ++runs, 1.0; }};
  const auto timings = time_interleaved(rivals, {.repetitions = 1000000000, .limit_seconds = 0});
  EXPECT_EQ(runs, 2);  // the warm-up gives everyone a figure
  EXPECT_EQ(timings[1].score_ms, 1.0);
  EXPECT_TRUE(time_interleaved({}, {}).empty());
}

}  // namespace
}  // namespace lathe
