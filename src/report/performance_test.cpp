// SPDX-License-Identifier: Apache-2.0
#include "report/performance.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "report/captured_log.h"

namespace lathe {
namespace {

QueryTimes query(float start, float compute, float enqueue = 0.1f, float copy = 0) {
  return {start,
          start + enqueue,
          start,
          start + copy,
          start + copy,
          start + copy + compute,
          start + copy + compute,
          start + 2 * copy + compute};
}

TEST(MetricSummary, FollowsTheDefinitions) {
  const auto summary = summarize_metric({4, 1, 3, 2}, {50, 90, 100, 0});
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 4);
  EXPECT_EQ(summary.mean, 2.5f);
  EXPECT_EQ(summary.median, 2.5f);
  EXPECT_EQ(summary.percentiles, (std::vector<float>{2, 4, 4, 1}));
  EXPECT_NEAR(summary.coefficient_of_variance, 44.7214f, 1e-3f);
}

TEST(MetricSummary, The99thPercentileOf100IsTheLargest) {
  std::vector<float> values;
  for (int i = 1; i <= 100; ++i) values.push_back(static_cast<float>(i));
  EXPECT_EQ(summarize_metric(values, {99}).percentiles[0], 100);
  EXPECT_EQ(summarize_metric(values, {90}).percentiles[0], 90);
}

TEST(Performance, WarmUpEndsAtTheFirstQueryThatStartsAfterIt) {
  const auto report =
      summarize_performance({query(0, 50), query(60, 50), query(120, 50), query(180, 50)}, 100, {99}, 1);
  EXPECT_EQ(report.warm_up_queries, 2);
  EXPECT_EQ(report.queries.size(), 2u);
  EXPECT_EQ(report.wall_ms, 110);
  EXPECT_EQ(report.total_compute_ms, 100);
  EXPECT_NEAR(report.throughput, 2 / 0.110f, 1e-3f);
}

TEST(Performance, OnlyWarmUpStillGivesAReport) {
  EXPECT_EQ(summarize_performance({query(0, 1), query(2, 1)}, 100, {99}, 1).queries.size(), 1u);
}

TEST(Performance, TextHasTheLinesThatScriptsParse) {
  CapturedLog captured;
  std::vector<QueryTimes> trace;
  for (int i = 0; i < 20; ++i) trace.push_back(query(static_cast<float>(i) * 2, 2));
  print_performance(captured.log(), summarize_performance(trace, 0, {90, 99.9f}, 1), 10);
  const auto lines = captured.out();
  const std::vector<std::string> expected = {
      "[I] Warmup completed 0 queries over 0 ms",
      "[I] Timing trace has 20 queries over 0.04 s",
      "[I] ",
      "[I] === Trace details ===",
      "[I] Trace averages of 10 runs:",
      "[I] Average on 10 runs - GPU latency: 2 ms - Host latency: 2 ms (enqueue 0.1 ms)",
      "[I] Average on 10 runs - GPU latency: 2 ms - Host latency: 2 ms (enqueue 0.1 ms)",
      "[I] ",
      "[I] === Performance summary ===",
      "[I] Throughput: 500 qps",
      "[I] Latency: min = 2 ms, max = 2 ms, mean = 2 ms, median = 2 ms, percentile(90%) = 2 ms, "
      "percentile(99.9%) = 2 ms"};
  for (size_t i = 0; i < expected.size(); ++i) {
    // Sums of start times carry a rounding error in the last digit; the layout is what counts.
    if (lines[i].find("enqueue") != std::string::npos) {
      EXPECT_EQ(lines[i].substr(0, 60), expected[i].substr(0, 60));
    } else {
      EXPECT_EQ(lines[i], expected[i]);
    }
  }
  EXPECT_EQ(lines.back(), "[I] ");
  EXPECT_EQ(lines[lines.size() - 2],
            "[I] Explanations of the performance metrics are printed in the verbose logs.");
  EXPECT_TRUE(captured.err().empty());
}

TEST(Performance, HintsByTheirConditions) {
  CapturedLog captured;
  print_performance(captured.log(),
                    summarize_performance({query(0, 1, 0.9f, 1), query(5, 2, 1.9f, 2)}, 0, {99}, 2), 1);
  const auto lines = captured.err();
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[0],
            "[W] * Throughput may be bound by Enqueue Time rather than GPU Compute and the GPU may be "
            "under-utilized.");
  EXPECT_EQ(lines[1],
            "[W]   If not already in use, --useCudaGraph (utilize CUDA graphs where possible) may increase "
            "the throughput.");
  EXPECT_EQ(lines[3], "[W]   Add --noDataTransfers flag to disable data transfers.");
  EXPECT_EQ(lines[6], "[W] * GPU compute time is unstable, with coefficient of variance = 33.3333%.");
  EXPECT_TRUE(lines[8].starts_with("[W] * Multiple inference streams are used."));
}

TEST(Performance, LongTracesShowBothEnds) {
  CapturedLog captured;
  std::vector<QueryTimes> trace;
  for (int i = 0; i < 1000; ++i) trace.push_back(query(static_cast<float>(i), 1));
  print_performance(captured.log(), summarize_performance(trace, 0, {99}, 1), 2);
  const auto lines = captured.out();
  EXPECT_EQ(lines[5 + 200], "[I] ... Omitting 200 lines");
  EXPECT_EQ(lines[5 + 401], "[I] ");
}

TEST(Performance, TimesAreStrictJson) {
  const auto report = summarize_performance({query(0, 1), query(1, 1)}, 0, {99}, 1);
  const std::string text = times_json(report);
  EXPECT_TRUE(text.starts_with("[\n  { \"startEnqMs\" : 0, \"endEnqMs\" : 0.1, "));
  EXPECT_NE(text.find("\n, { \"startEnqMs\" : 1"), std::string::npos);
  const Json json = parse_json(text, "times");
  EXPECT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0].size(), 12u);
  EXPECT_EQ(json[1]["latencyMs"], 1);
}

TEST(Numbers, SixDigitsAsStreams) {
  EXPECT_EQ(format_number(0.0000123), "1.23e-05");
  EXPECT_EQ(format_number(1048576), "1.04858e+06");
  EXPECT_EQ(format_number(2.5), "2.5");
  EXPECT_EQ(format_json_number(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(format_json_number(-std::numeric_limits<double>::infinity()), "-1e999");
}

}  // namespace
}  // namespace lathe
