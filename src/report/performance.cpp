// SPDX-License-Identifier: Apache-2.0
#include "report/performance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace lathe {
namespace {

constexpr size_t kShownWindows = 200;  // at either end of the trace

// The original multiplies in 32 bits, so that p99 of exactly 100 values is the largest: (1 - 0.99f) * 100 is
// just below 1.
int64_t rank_of(float percentage, int64_t count) {
  const float above = (1 - percentage / 100) * static_cast<float>(count);
  return std::max<int64_t>(count - 1 - static_cast<int64_t>(std::floor(above)), 0);
}

void print_trace(Log& log, const PerformanceReport& report) {
  log.info("");
  log.info("=== Trace details ===");
  log.info(fmt::format("Trace averages of {} runs:", report.window));
  for (size_t i = 0; i < report.lines.size(); ++i) {
    if (report.omitted_queries > 0 && i == kShownWindows)
      log.info(fmt::format("... Omitting {} lines", report.omitted_queries));
    const TraceLine& line = report.lines[i];
    log.info(fmt::format("Average on {} runs - GPU latency: {} ms - Host latency: {} ms (enqueue {} ms)",
                         report.window, format_number(line.compute), format_number(line.latency),
                         format_number(line.enqueue)));
  }
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
  constexpr double kEnqueueShare = 0.8;
  constexpr double kUnstablePercent = 1.0;
  const auto hint = [&](const std::string& what, const std::string& advice) {
    log.warning("* " + what);
    log.warning("  " + advice);
  };
  const std::string bound_by =
      "Throughput may be bound by {} rather than GPU Compute and the GPU may be under-utilized.";
  if (report.enqueue.median > kEnqueueShare * report.compute.median) {
    hint(fmt::format(fmt::runtime(bound_by), "Enqueue Time"),
         report.on_host ? "The layers take so little time that the call itself counts: a larger batch may "
                          "increase the throughput."
                        : "If not already in use, --useCudaGraph (utilize CUDA graphs where possible) may "
                          "increase the throughput.");
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
         report.on_host
             ? "Other programs on the same cores, or clocks that change, are the usual reason; the median is "
               "then worth more than the mean."
         : report.spins ? "If not already in use, locking GPU clock frequency may improve the stability."
                        : "If not already in use, locking GPU clock frequency or adding --useSpinWait may "
                          "improve the stability.");
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

struct RecordMerger {
  static void append(QueryRecorder& all, QueryRecorder& part) {
    all.warm_up_queries_ += part.warm_up_queries_;
    if (part.last_warm_up_.compute_start > all.last_warm_up_.compute_start)
      all.last_warm_up_ = part.last_warm_up_;
    all.first_start_ = std::min(all.first_start_, part.first_start_);
    all.last_end_ = std::max(all.last_end_, part.last_end_);
    for (const auto metric : {&QueryRecorder::latency_, &QueryRecorder::enqueue_, &QueryRecorder::h2d_,
                              &QueryRecorder::compute_, &QueryRecorder::d2h_})
      (all.*metric).add(part.*metric);
    all.head_.insert(all.head_.end(), part.head_.begin(), part.head_.end());
    all.tail_.insert(all.tail_.end(), part.tail_.begin(), part.tail_.end());
    all.windows_ += part.windows_;
    all.queries_.insert(all.queries_.end(), part.queries_.begin(), part.queries_.end());
    part.queries_.clear();
  }

  // The first and the last windows of all threads; each thread keeps enough of either.
  static void take_lines(const QueryRecorder& all, PerformanceReport& report) {
    std::vector<TraceLine>& lines = report.lines;
    lines = all.head_;
    lines.insert(lines.end(), all.tail_.begin(), all.tail_.end());
    std::stable_sort(lines.begin(), lines.end(),
                     [](const TraceLine& a, const TraceLine& b) { return a.start < b.start; });
    const int64_t omitted = all.windows_ - static_cast<int64_t>(2 * kShownWindows);
    if (omitted <= 0) return;
    report.omitted_queries = omitted * report.window;
    lines.erase(lines.begin() + kShownWindows, lines.end() - kShownWindows);
  }

  static PerformanceReport report_of(QueryRecorder& all, const std::vector<float>& percentages) {
    if (all.compute_.count() == 0 && all.warm_up_queries_ > 0) {  // all of it was warm-up: the last query
      --all.warm_up_queries_;
      all.count(all.last_warm_up_);
    }
    check(all.compute_.count() > 0, "a performance report needs at least one query");
    PerformanceReport report;
    report.queries = all.compute_.count();
    report.warm_up_queries = all.warm_up_queries_;
    report.warm_up_ms = all.options_.warm_up_ms;
    report.window = all.options_.window;
    report.percentages = percentages;
    report.latency = summarize_metric(all.latency_, percentages);
    report.enqueue = summarize_metric(all.enqueue_, percentages);
    report.h2d = summarize_metric(all.h2d_, percentages);
    report.compute = summarize_metric(all.compute_, percentages);
    report.d2h = summarize_metric(all.d2h_, percentages);
    report.wall_ms = all.last_end_ - all.first_start_;
    report.total_compute_ms = all.compute_.sum();
    if (report.wall_ms > 0) report.throughput = static_cast<double>(report.queries) / report.wall_ms * 1000;
    take_lines(all, report);
    report.records = std::move(all.queries_);
    const auto by_start = [](const QueryTimes& a, const QueryTimes& b) { return a.h2d_start < b.h2d_start; };
    if (!std::is_sorted(report.records.begin(), report.records.end(), by_start))
      std::stable_sort(report.records.begin(), report.records.end(), by_start);
    return report;
  }
};

void QueryRecorder::add(const QueryTimes& query) {
  if (query.compute_start >= static_cast<double>(options_.warm_up_ms)) return count(query);
  ++warm_up_queries_;
  last_warm_up_ = query;
}

void QueryRecorder::count(const QueryTimes& query) {
  first_start_ = std::min(first_start_, query.h2d_start);
  last_end_ = std::max(last_end_, query.d2h_end);
  latency_.add(query.latency());
  enqueue_.add(query.enqueue());
  h2d_.add(query.h2d());
  compute_.add(query.compute());
  d2h_.add(query.d2h());
  if (options_.keep_queries) queries_.push_back(query);
  if (in_window_ == 0) window_ = {.start = query.h2d_start};
  window_.compute += query.compute();
  window_.latency += query.latency();
  window_.enqueue += query.enqueue();
  if (++in_window_ == options_.window) end_window();
}

void QueryRecorder::end_window() {
  const double count = in_window_;
  in_window_ = 0;
  ++windows_;
  const TraceLine line{window_.start, window_.compute / count, window_.latency / count,
                       window_.enqueue / count};
  if (head_.size() < kShownWindows) return head_.push_back(line);
  tail_.push_back(line);
  if (tail_.size() > kShownWindows) tail_.pop_front();
}

MetricSummary summarize_metric(const Distribution& values, const std::vector<float>& percentages) {
  MetricSummary summary{values.min(), values.max(), values.mean(), values.median()};
  for (const float percentage : percentages)
    summary.percentiles.push_back(values.count() == 0 ? 0
                                                      : values.at_rank(rank_of(percentage, values.count())));
  if (values.mean() != 0) summary.coefficient_of_variance = values.standard_deviation() / values.mean() * 100;
  return summary;
}

PerformanceReport summarize_performance(std::span<QueryRecorder> recorders,
                                        const std::vector<float>& percentages) {
  QueryRecorder& all = recorders.front();
  for (QueryRecorder& part : recorders.subspan(1)) RecordMerger::append(all, part);
  return RecordMerger::report_of(all, percentages);
}

void print_performance(Log& log, const PerformanceReport& report) {
  log.info(fmt::format("Warmup completed {} queries over {} ms", report.warm_up_queries,
                       format_number(report.warm_up_ms)));
  log.info(fmt::format("Timing trace has {} queries over {} s", report.queries,
                       format_number(report.wall_ms / 1000)));
  print_trace(log, report);
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

void write_times_json(FileWriter& file, const PerformanceReport& report) {
  file.write("[\n");
  bool is_first_query = true;
  for (const QueryTimes& q : report.records) {
    const std::pair<std::string_view, double> fields[] = {{"startEnqMs", q.enqueue_start},
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
    std::string text = is_first_query ? "  { " : ", { ";
    is_first_query = false;
    bool is_first = true;
    for (const auto& [key, value] : fields) {
      text += fmt::format("{}\"{}\" : {}", is_first ? "" : ", ", key, format_json_number(value));
      is_first = false;
    }
    file.write(text + " }\n");
  }
  file.write("]\n");
}

}  // namespace lathe
