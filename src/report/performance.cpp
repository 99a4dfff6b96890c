// SPDX-License-Identifier: Apache-2.0
#include "report/performance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace lathe {
namespace {

float median_of_sorted(const std::vector<float>& sorted) {
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

// The original multiplies in 32 bits, so that p99 of exactly 100 values is the largest: (1 - 0.99f) * 100 is
// just below 1.
float percentile_of_sorted(const std::vector<float>& sorted, float percentage) {
  const auto n = static_cast<int64_t>(sorted.size());
  const float above = (1 - percentage / 100) * static_cast<float>(n);
  const int64_t index = n - 1 - static_cast<int64_t>(std::floor(above));
  return sorted[static_cast<size_t>(std::max<int64_t>(index, 0))];
}

template <class Get>
MetricSummary summarize_of(const std::vector<QueryTimes>& queries, const std::vector<float>& percentages,
                           Get get) {
  std::vector<float> values;
  values.reserve(queries.size());
  for (const auto& query : queries) values.push_back(get(query));
  return summarize_metric(std::move(values), percentages);
}

void print_trace_lines(Log& log, const std::vector<QueryTimes>& queries, size_t begin, size_t end,
                       int window) {
  const auto step = static_cast<size_t>(window);
  for (size_t first = begin; first + step <= end; first += step) {
    float compute = 0, latency = 0, enqueue = 0;
    for (size_t i = first; i < first + step; ++i) {
      compute += queries[i].compute();
      latency += queries[i].latency();
      enqueue += queries[i].enqueue();
    }
    const auto count = static_cast<float>(window);
    log.info(fmt::format("Average on {} runs - GPU latency: {} ms - Host latency: {} ms (enqueue {} ms)",
                         window, format_number(compute / count), format_number(latency / count),
                         format_number(enqueue / count)));
  }
}

void print_trace(Log& log, const PerformanceReport& report, int window) {
  constexpr size_t kShownWindows = 200;  // at either end
  const size_t count = report.queries.size();
  const size_t part = kShownWindows * static_cast<size_t>(window);
  log.info("");
  log.info("=== Trace details ===");
  log.info(fmt::format("Trace averages of {} runs:", window));
  if (count <= 2 * part) return print_trace_lines(log, report.queries, 0, count, window);
  print_trace_lines(log, report.queries, 0, part, window);
  log.info(fmt::format("... Omitting {} lines", count - 2 * part));
  print_trace_lines(log, report.queries, count - part - 1, count,
                    window);  // the original starts one early, too
}

std::string metric_text(const MetricSummary& metric, const std::vector<float>& percentages) {
  std::string text =
      fmt::format("min = {} ms, max = {} ms, mean = {} ms, median = {} ms", format_number(metric.min),
                  format_number(metric.max), format_number(metric.mean), format_number(metric.median));
  for (size_t i = 0; i < percentages.size(); ++i) {
    text += fmt::format(", percentile({}%) = {} ms", format_number(percentages[i]),
                        format_number(metric.percentiles[i]));
  }
  return text;
}

void print_hints(Log& log, const PerformanceReport& report) {
  constexpr float kEnqueueShare = 0.8f;
  constexpr float kUnstablePercent = 1.0f;
  const auto hint = [&](const std::string& what, const std::string& advice) {
    log.warning("* " + what);
    log.warning("  " + advice);
  };
  const std::string bound_by =
      "Throughput may be bound by {} rather than GPU Compute and the GPU may be under-utilized.";
  if (report.enqueue.median > kEnqueueShare * report.compute.median) {
    hint(fmt::format(fmt::runtime(bound_by), "Enqueue Time"),
         "If not already in use, --useCudaGraph (utilize CUDA graphs where possible) may increase the "
         "throughput.");
  }
  if (report.h2d.median >= report.compute.median) {
    hint(fmt::format(fmt::runtime(bound_by), "host-to-device transfers for the inputs"),
         "Add --noDataTransfers flag to disable data transfers.");
  }
  if (report.d2h.median >= report.compute.median) {
    hint(fmt::format(fmt::runtime(bound_by), "device-to-host transfers for the outputs"),
         "Add --noDataTransfers flag to disable data transfers.");
  }
  if (report.compute.coefficient_of_variance > kUnstablePercent) {
    hint(fmt::format("GPU compute time is unstable, with coefficient of variance = {}%.",
                     format_number(report.compute.coefficient_of_variance)),
         "If not already in use, locking GPU clock frequency or adding --useSpinWait may improve the "
         "stability.");
  }
  if (report.streams > 1) {
    log.warning(
        "* Multiple inference streams are used. Latencies may not be accurate since inferences may run in   "
        "parallel. "
        "Please use \"Throughput\" as the performance metric instead.");
  }
}

void print_explanations(Log& log) {
  constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
      {"Total Host Walltime",
       "host time between the start of the first measured query and the end of the last one."},
      {"GPU Compute Time",
       "time in which the layers of a query run on the device (on a CPU: on the host's threads)."},
      {"Total GPU Compute Time",
       "sum of the GPU Compute Time of all queries. Much less than Total Host Walltime: the device waits for "
       "the host "
       "or for data transfers."},
      {"Throughput",
       "queries divided by Total Host Walltime. Much lower than 1 / GPU Compute Time: the device waits for "
       "the host or "
       "for data transfers."},
      {"Enqueue Time",
       "host time to launch a query, apart from the layers that run on the host itself. Longer than GPU "
       "Compute Time: "
       "the device waits for the host."},
      {"H2D Latency",
       "time to copy the inputs of a query to the device (0 when it computes in host memory)."},
      {"D2H Latency", "time to copy the outputs of a query to the host (0 when it computes in host memory)."},
      {"Latency", "H2D Latency + GPU Compute Time + D2H Latency: what one query takes."},
  };
  log.line(Severity::Verbose, "");
  log.line(Severity::Verbose, "=== Explanations of the performance metrics ===");
  for (const auto& [name, meaning] : kMeanings)
    log.line(Severity::Verbose, fmt::format("{}: {}", name, meaning));
}

}  // namespace

MetricSummary summarize_metric(std::vector<float> values, const std::vector<float>& percentages) {
  MetricSummary summary;
  summary.percentiles.assign(percentages.size(), 0);
  if (values.empty()) return summary;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<float>(values.size());
  summary.min = values.front();
  summary.max = values.back();
  summary.median = median_of_sorted(values);
  summary.mean = std::accumulate(values.begin(), values.end(), 0.0f) / count;
  for (size_t i = 0; i < percentages.size(); ++i)
    summary.percentiles[i] = percentile_of_sorted(values, percentages[i]);
  float squares = 0;
  for (const float value : values) squares += (value - summary.mean) * (value - summary.mean);
  if (summary.mean != 0) summary.coefficient_of_variance = std::sqrt(squares / count) / summary.mean * 100;
  return summary;
}

PerformanceReport summarize_performance(std::vector<QueryTimes> trace, float warm_up_ms,
                                        const std::vector<float>& percentages, int streams) {
  check(!trace.empty(), "a performance report needs at least one query");
  std::stable_sort(trace.begin(), trace.end(),
                   [](const QueryTimes& a, const QueryTimes& b) { return a.h2d_start < b.h2d_start; });
  auto first = std::find_if(trace.begin(), trace.end(),
                            [&](const QueryTimes& query) { return query.compute_start >= warm_up_ms; });
  if (first == trace.end()) --first;  // all of it was warm-up: report the last query
  PerformanceReport report;
  report.warm_up_queries = static_cast<int>(first - trace.begin());
  report.warm_up_ms = warm_up_ms;
  report.percentages = percentages;
  report.streams = streams;
  report.queries.assign(first, trace.end());
  const auto& queries = report.queries;
  report.latency = summarize_of(queries, percentages, [](const auto& q) { return q.latency(); });
  report.enqueue = summarize_of(queries, percentages, [](const auto& q) { return q.enqueue(); });
  report.h2d = summarize_of(queries, percentages, [](const auto& q) { return q.h2d(); });
  report.compute = summarize_of(queries, percentages, [](const auto& q) { return q.compute(); });
  report.d2h = summarize_of(queries, percentages, [](const auto& q) { return q.d2h(); });
  report.wall_ms = queries.back().d2h_end - queries.front().h2d_start;
  report.total_compute_ms = report.compute.mean * static_cast<float>(queries.size());
  if (report.wall_ms > 0) report.throughput = static_cast<float>(queries.size()) / report.wall_ms * 1000;
  return report;
}

void print_performance(Log& log, const PerformanceReport& report, int window) {
  log.info(fmt::format("Warmup completed {} queries over {} ms", report.warm_up_queries,
                       format_number(report.warm_up_ms)));
  log.info(fmt::format("Timing trace has {} queries over {} s", report.queries.size(),
                       format_number(report.wall_ms / 1000)));
  print_trace(log, report, window);
  log.info("");
  log.info("=== Performance summary ===");
  log.info(fmt::format("Throughput: {} qps", format_number(report.throughput)));
  log.info("Latency: " + metric_text(report.latency, report.percentages));
  log.info("Enqueue Time: " + metric_text(report.enqueue, report.percentages));
  log.info("H2D Latency: " + metric_text(report.h2d, report.percentages));
  log.info("GPU Compute Time: " + metric_text(report.compute, report.percentages));
  log.info("D2H Latency: " + metric_text(report.d2h, report.percentages));
  log.info(fmt::format("Total Host Walltime: {} s", format_number(report.wall_ms / 1000)));
  log.info(fmt::format("Total GPU Compute Time: {} s", format_number(report.total_compute_ms / 1000)));
  print_hints(log, report);
  log.info("Explanations of the performance metrics are printed in the verbose logs.");
  print_explanations(log);
  log.info("");
}

std::string times_json(const PerformanceReport& report) {
  std::string text = "[\n";
  for (size_t i = 0; i < report.queries.size(); ++i) {
    const auto& q = report.queries[i];
    const std::pair<std::string_view, float> fields[] = {{"startEnqMs", q.enqueue_start},
                                                         {"endEnqMs", q.enqueue_end},
                                                         {"startH2dMs", q.h2d_start},
                                                         {"endH2dMs", q.h2d_end},
                                                         {"startComputeMs", q.compute_start},
                                                         {"endComputeMs", q.compute_end},
                                                         {"startD2hMs", q.d2h_start},
                                                         {"endD2hMs", q.d2h_end},
                                                         {"h2dMs", q.h2d()},
                                                         {"computeMs", q.compute()},
                                                         {"d2hMs", q.d2h()},
                                                         {"latencyMs", q.latency()}};
    text += i == 0 ? "  { " : ", { ";
    bool is_first = true;
    for (const auto& [key, value] : fields) {
      text += fmt::format("{}\"{}\" : {}", is_first ? "" : ", ", key, format_json_number(value));
      is_first = false;
    }
    text += " }\n";
  }
  return text + "]\n";
}

}  // namespace lathe
