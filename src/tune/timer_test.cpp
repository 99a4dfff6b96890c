// SPDX-License-Identifier: Apache-2.0
#include "tune/timer.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe {
namespace {

TEST(Timer, PercentileIsNearestRank) {
  EXPECT_EQ(percentile_ms({5, 1, 4, 2, 3}, 0.2), 1);
  EXPECT_EQ(percentile_ms({5, 1, 4, 2, 3}, 0.5), 3);
  EXPECT_EQ(percentile_ms({5, 1, 4, 2, 3}, 1.0), 5);
  EXPECT_EQ(percentile_ms({7}, 0.2), 7);
  EXPECT_THROW(percentile_ms({}, 0.2), Error);
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
