// SPDX-License-Identifier: Apache-2.0
#include "report/layer_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/json_text.h"

namespace lathe {
namespace {

// Scripts divide by these times. A layer that is a view of memory takes none: the least that a clock tells
// stands for it.
std::string time_text(float ms) {
  constexpr float kLeastMs = 1e-6f;
  return format_json_number(static_cast<double>(std::max(ms, kLeastMs)));
}

}  // namespace

LayerProfileReport summarize_layers(const LayerProfiler& profiler) {
  LayerProfileReport report;
  report.iterations = profiler.runs();
  const auto all_ms = static_cast<float>(profiler.total_ms());
  for (size_t layer = 0; layer < profiler.layers().size(); ++layer) {
    const auto total = static_cast<float>(profiler.total_ms(layer));
    report.layers.push_back({profiler.layers()[layer], total, static_cast<float>(profiler.average_ms(layer)),
                             static_cast<float>(profiler.median_ms(layer)),
                             all_ms > 0 ? total / all_ms * 100 : 0});
  }
  const float average = report.iterations > 0 ? all_ms / static_cast<float>(report.iterations) : 0;
  report.total = {"Total", all_ms, average, static_cast<float>(profiler.runs_ms().median()), 100};
  return report;
}

void print_layer_profile(Log& log, const LayerProfileReport& report) {
  const auto line = [&](const LayerProfileReport::Row& row) {
    log.info(fmt::format("{:11.2f}{:13.4f}{:13.4f}{:10.1f}   {}", row.total_ms, row.average_ms, row.median_ms,
                         row.percentage, row.name));
  };
  log.info("");
  log.info(fmt::format("=== Profile ({} iterations ) ===", report.iterations));
  log.info(
      fmt::format("{:>11}{:>13}{:>13}{:>10}   {}", "Time(ms)", "Avg.(ms)", "Median(ms)", "Time(%)", "Layer"));
  for (const auto& row : report.layers) {
    if (row.total_ms > 0) line(row);
  }
  line(report.total);
  log.info("");
}

std::string profile_json(const LayerProfileReport& report) {
  std::string text = fmt::format("[\n  {{ \"count\" : {} }}\n", report.iterations);
  for (const auto& row : report.layers) {
    text += fmt::format(
        ", {{ \"name\" : {}, \"timeMs\" : {}, \"averageMs\" : {}, \"medianMs\" : {}, \"percentage\" : {} "
        "}}\n",
        json_string(row.name), time_text(row.total_ms), time_text(row.average_ms), time_text(row.median_ms),
        format_json_number(row.percentage));
  }
  return text + "]\n";
}

}  // namespace lathe
