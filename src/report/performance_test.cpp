// SPDX-License-Identifier: Apache-2.0
#include "report/performance.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "report/captured_log.h"

namespace lathe {
namespace {

QueryTimes query(double start, double compute, double enqueue = 0.1, double copy = 0) {
  return {start,
          start + enqueue,
          start,
          start + copy,
          start + copy,
          start + copy + compute,
          start + copy + compute,
          start + 2 * copy + compute};
}

Distribution distribution(const std::vector<double>& values) {
  Distribution result;
  for (const double value : values) result.add(value);
  return result;
}

// What one thread recorded.
PerformanceReport report_of(const std::vector<QueryTimes>& trace, const RecordOptions& options = {},
                            const std::vector<float>& percentages = {99}) {
  std::vector<QueryRecorder> records(1, QueryRecorder(options));
  for (const QueryTimes& times : trace) records[0].add(times);
  return summarize_performance(records, percentages);
}

// Gathers what is written to a file.
class TextWriter final : public FileWriter {
 public:
  using FileWriter::write;
  void write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string text;
};

TEST(MetricSummary, FollowsTheDefinitions) {
  const auto summary = summarize_metric(distribution({4, 1, 3, 2}), {50, 90, 100, 0});
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 4);
  EXPECT_EQ(summary.mean, 2.5);
  EXPECT_EQ(summary.median, 2.5);
  EXPECT_EQ(summary.percentiles, (std::vector<double>{2, 4, 4, 1}));
  EXPECT_NEAR(summary.coefficient_of_variance, 44.7214, 1e-3);
}

TEST(MetricSummary, The99thPercentileOf100IsTheLargest) {
  std::vector<double> values;
  for (int i = 1; i <= 100; ++i) values.push_back(i);
  EXPECT_EQ(summarize_metric(distribution(values), {99}).percentiles[0], 100);
  EXPECT_EQ(summarize_metric(distribution(values), {90}).percentiles[0], 90);
}

TEST(Performance, WarmUpEndsAtTheFirstQueryThatStartsAfterIt) {
  const auto report =
      report_of({query(0, 50), query(60, 50), query(120, 50), query(180, 50)}, {.warm_up_ms = 100});
  EXPECT_EQ(report.warm_up_queries, 2);
  EXPECT_EQ(report.queries, 2);
  EXPECT_EQ(report.wall_ms, 110);
  EXPECT_EQ(report.total_compute_ms, 100);
  EXPECT_NEAR(report.throughput, 2 / 0.110, 1e-9);
  EXPECT_TRUE(report.records.empty());  // nobody asked for them
}

TEST(Performance, OnlyWarmUpStillGivesAReport) {
  const auto report = report_of({query(0, 1), query(2, 3)}, {.warm_up_ms = 100});
  EXPECT_EQ(report.queries, 1);
  EXPECT_EQ(report.warm_up_queries, 1);
  EXPECT_EQ(report.compute.max, 3);
}

TEST(Performance, TextHasTheLinesThatScriptsParse) {
  CapturedLog captured;
  std::vector<QueryTimes> trace;
  for (int i = 0; i < 20; ++i) trace.push_back(query(i * 2, 2));
  print_performance(captured.log(), report_of(trace, {}, {90, 99.9f}));
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
  auto report = report_of({query(0, 1, 0.9, 1), query(5, 2, 1.9, 2)}, {.window = 1});
  report.streams = 2;
  print_performance(captured.log(), report);
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
  EXPECT_EQ(
      lines[7],
      "[W]   If not already in use, locking GPU clock frequency or adding --useSpinWait may improve the "
      "stability.");
  EXPECT_TRUE(lines[8].starts_with("[W] * Multiple inference streams are used."));
}

TEST(Performance, AdviceIsOnlyForWhoCanFollowIt) {
  const auto advice = [](bool on_host, bool spins) {
    CapturedLog captured;
    auto report = report_of({query(0, 1, 0.9), query(5, 2, 1.9)}, {.window = 1});
    report.on_host = on_host;
    report.spins = spins;
    print_performance(captured.log(), report);
    std::string text;
    for (const auto& line : captured.err()) text += line + "\n";
    return text;
  };
  EXPECT_EQ(advice(true, false).find("GPU clock"), std::string::npos);
  EXPECT_EQ(advice(true, false).find("--useCudaGraph"), std::string::npos);
  EXPECT_EQ(advice(false, true).find("--useSpinWait"), std::string::npos);
  EXPECT_NE(advice(false, true).find("locking GPU clock frequency"), std::string::npos);
}

TEST(Performance, LongTracesShowBothEnds) {
  CapturedLog captured;
  std::vector<QueryTimes> trace;
  for (int i = 0; i < 1000; ++i) trace.push_back(query(i, i));
  print_performance(captured.log(), report_of(trace, {.window = 2}));
  const auto lines = captured.out();
  EXPECT_TRUE(lines[5].starts_with("[I] Average on 2 runs - GPU latency: 0.5 ms"));
  EXPECT_EQ(lines[5 + 200], "[I] ... Omitting 200 lines");
  EXPECT_TRUE(lines[5 + 201].starts_with("[I] Average on 2 runs - GPU latency: 600.5 ms"));
  EXPECT_TRUE(lines[5 + 400].starts_with("[I] Average on 2 runs - GPU latency: 998.5 ms"));
  EXPECT_EQ(lines[5 + 401], "[I] ");
}

TEST(Performance, RecordsOfThreadsAreOneTrace) {
  std::vector<QueryRecorder> records(3, QueryRecorder({.warm_up_ms = 10, .window = 1, .keep_queries = true}));
  for (int i = 0; i < 900; ++i) records[static_cast<size_t>(i % 3)].add(query(i, 1 + i % 3));
  const auto report = summarize_performance(records, {99});
  EXPECT_EQ(report.queries, 890);
  EXPECT_EQ(report.warm_up_queries, 10);
  EXPECT_EQ(report.wall_ms, 899 + 3 - 10);
  EXPECT_NEAR(report.compute.mean, 2, 1e-2);
  ASSERT_EQ(report.lines.size(), 400u);
  EXPECT_EQ(report.omitted_queries, 490);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(report.lines[i].start, 10 + static_cast<double>(i));
    EXPECT_EQ(report.lines[399 - i].start, 899 - static_cast<double>(i));
  }
  ASSERT_EQ(report.records.size(), 890u);
  for (size_t i = 0; i < 890; ++i) EXPECT_EQ(report.records[i].h2d_start, 10 + static_cast<double>(i));
}

TEST(Performance, TimesAreStrictJson) {
  const auto report = report_of({query(0, 1), query(1, 1)}, {.keep_queries = true});
  TextWriter file;
  write_times_json(file, report);
  EXPECT_TRUE(file.text.starts_with("[\n  { \"startEnqMs\" : 0, \"endEnqMs\" : 0.1, "));
  EXPECT_NE(file.text.find("\n, { \"startEnqMs\" : 1"), std::string::npos);
  const Json json = parse_json(file.text, "times");
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
