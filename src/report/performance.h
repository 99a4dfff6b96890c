// SPDX-License-Identifier: Apache-2.0
//
// What the measured queries of a run say: times per query, and the summary computed from them by trtexec's
// definitions (milliseconds). The text report, --exportTimes and --exportSummary are views of it.
//
// A run may last for hours, so what is recorded does not grow with it: distributions (base/distribution.h),
// and the averages of the first and the last windows, which is what the report prints. Single queries are
// only kept for --exportTimes.
//
// The keys speak of a GPU because scripts match them. On a backend that computes on the host they mean:
// compute = the time in which the layers run; H2D and D2H = 0, nothing is copied; enqueue = what the call
// costs the host besides the layers.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/distribution.h"
#include "base/file.h"
#include "report/log.h"

namespace lathe {

// One query, in milliseconds from the start of the run.
struct QueryTimes {
  double enqueue_start = 0, enqueue_end = 0;
  double h2d_start = 0, h2d_end = 0;
  double compute_start = 0, compute_end = 0;
  double d2h_start = 0, d2h_end = 0;

  double enqueue() const { return enqueue_end - enqueue_start; }
  double h2d() const { return h2d_end - h2d_start; }
  double compute() const { return compute_end - compute_start; }
  double d2h() const { return d2h_end - d2h_start; }
  double latency() const { return h2d() + compute() + d2h(); }
};

struct RecordOptions {
  float warm_up_ms = 0;       // queries that start earlier do not count
  int window = 10;            // queries per trace line (--avgRuns)
  bool keep_queries = false;  // all of them, 64 bytes each
};

// Averages over a window of consecutive queries of one thread.
struct TraceLine {
  double start = 0, compute = 0, latency = 0, enqueue = 0;
};

// What one thread measures.
class QueryRecorder {
 public:
  explicit QueryRecorder(const RecordOptions& options) : options_(options) {}
  void add(const QueryTimes& query);

 private:
  friend struct RecordMerger;
  void count(const QueryTimes& query);
  void end_window();

  RecordOptions options_;
  int64_t warm_up_queries_ = 0;
  QueryTimes last_warm_up_;
  double first_start_ = std::numeric_limits<double>::infinity(), last_end_ = 0;
  Distribution latency_, enqueue_, h2d_, compute_, d2h_;
  TraceLine window_;  // sums of the window that is being filled
  int in_window_ = 0;
  std::vector<TraceLine> head_;
  std::deque<TraceLine> tail_;
  int64_t windows_ = 0;
  std::deque<QueryTimes> queries_;
};

struct MetricSummary {
  double min = 0, max = 0, mean = 0, median = 0;
  std::vector<double> percentiles;     // one per requested percentage
  double coefficient_of_variance = 0;  // percent
};
// `percentages` in [0, 100].
MetricSummary summarize_metric(const Distribution& values, const std::vector<float>& percentages);

struct PerformanceReport {
  int64_t queries = 0, warm_up_queries = 0;
  float warm_up_ms = 0;  // as requested
  std::vector<float> percentages;
  MetricSummary latency, enqueue, h2d, compute, d2h;
  double wall_ms = 0, total_compute_ms = 0, throughput = 0;  // queries per second
  int streams = 1, window = 10;
  bool on_host = false,
       spins = false;              // advice about clocks and waiting is for GPUs, and not for who follows it
  std::vector<TraceLine> lines;    // by start
  int64_t omitted_queries = 0;     // between the two halves of `lines`
  std::deque<QueryTimes> records;  // by start; empty unless they were kept
};
// `recorders`: one per thread, of the same options; at least one query in all. They are consumed.
PerformanceReport summarize_performance(std::span<QueryRecorder> recorders,
                                        const std::vector<float>& percentages);

// Trace lines, summary, hints and (verbose) explanations.
void print_performance(Log& log, const PerformanceReport& report);
// The file of --exportTimes.
void write_times_json(FileWriter& file, const PerformanceReport& report);

}  // namespace lathe
