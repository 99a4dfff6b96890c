// SPDX-License-Identifier: Apache-2.0
//
// What the measured queries of a run say: times per query, and the summary computed from them by trtexec's
// definitions (32-bit arithmetic, milliseconds). The text report and --exportTimes are views of it.
//
// The keys speak of a GPU because scripts match them. On a backend that computes on the host they mean:
// compute = the time in which the layers run; H2D and D2H = 0, nothing is copied; enqueue = what the call
// costs the host besides the layers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/log.h"

namespace lathe {

// One query, in milliseconds from the start of the run.
struct QueryTimes {
  float enqueue_start = 0, enqueue_end = 0;
  float h2d_start = 0, h2d_end = 0;
  float compute_start = 0, compute_end = 0;
  float d2h_start = 0, d2h_end = 0;

  float enqueue() const { return enqueue_end - enqueue_start; }
  float h2d() const { return h2d_end - h2d_start; }
  float compute() const { return compute_end - compute_start; }
  float d2h() const { return d2h_end - d2h_start; }
  float latency() const { return h2d() + compute() + d2h(); }
};

struct MetricSummary {
  float min = 0, max = 0, mean = 0, median = 0;
  std::vector<float> percentiles;     // one per requested percentage
  float coefficient_of_variance = 0;  // percent
};
// `percentages` in [0, 100].
MetricSummary summarize_metric(std::vector<float> values, const std::vector<float>& percentages);

struct PerformanceReport {
  std::vector<QueryTimes> queries;  // without warm-up, by start
  int warm_up_queries = 0;
  float warm_up_ms = 0;  // as requested
  std::vector<float> percentages;
  MetricSummary latency, enqueue, h2d, compute, d2h;
  float wall_ms = 0, total_compute_ms = 0, throughput = 0;  // queries per second
  int streams = 1;
};
// `trace` holds the queries of all streams, in any order; at least one.
PerformanceReport summarize_performance(std::vector<QueryTimes> trace, float warm_up_ms,
                                        const std::vector<float>& percentages, int streams);

// Trace lines, summary, hints and (verbose) explanations. `window`: queries per trace line (--avgRuns).
void print_performance(Log& log, const PerformanceReport& report, int window);
// The text of --exportTimes.
std::string times_json(const PerformanceReport& report);

}  // namespace lathe
