// SPDX-License-Identifier: Apache-2.0
//
// Logs as metadata files. Figures become numbers, series lists of min, max, mean, median and percentiles;
// other values stay whole.
#include <array>

#include "base/json.h"
#include "explorer/core/graph_picture.h"

namespace lathe::explorer {
namespace {

Json section(const LogFile& log, std::string_view title) {
  Json json = Json::object();
  if (const Texts* texts = log.find(title)) {
    for (const auto& [key, value] : *texts) json[key] = value;
  }
  return json;
}

Json device(const LogFile& log) {
  Json json = section(log, "Device Information");
  for (const char* key : {"Compute Capability", "SMs", "Memory Bus Width", "Application Compute Clock Rate",
                          "Application Memory Clock Rate", "Compute Clock Rate", "Memory Clock Rate"}) {
    if (!json.contains(key)) continue;
    if (const auto number = leading_number(json[key].get<std::string>())) json[key] = *number;
  }
  return json;
}

Json summary(const LogFile& log) {
  Json json = section(log, "Performance summary");
  for (auto& [key, value] : json.items()) {
    const auto text = value.get<std::string>();
    if (const auto series = read_series_text(text)) {
      value = Json::array({series->min_ms, series->max_ms, series->mean_ms, series->median_ms});
      for (const auto& percentile : {series->p90_ms, series->p95_ms, series->p99_ms}) {
        if (percentile) value.push_back(*percentile);
      }
    } else if (const auto number = leading_number(text)) {
      value = *number;
    }
  }
  return json;
}

}  // namespace

Json profile_metadata(const LogFile& log) {
  return {{"performance_summary", summary(log)},
          {"inference_options", section(log, "Inference Options")},
          {"device_information", device(log)}};
}

Json build_metadata(const LogFile& log) {
  return {{"model_options", section(log, "Model Options")},
          {"build_options", section(log, "Build Options")},
          {"device_information", device(log)}};
}

}  // namespace lathe::explorer
