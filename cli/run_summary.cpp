// SPDX-License-Identifier: Apache-2.0
#include "run_summary.h"

#include <ctime>

#include "base/json.h"
#include "base/version.h"
#include "report/log.h"

namespace lathe::cli {
namespace {

Json metric_json(const MetricSummary& metric, const std::vector<float>& percentages) {
  Json percentiles = Json::object();
  for (size_t i = 0; i < percentages.size(); ++i)
    percentiles[format_number(static_cast<double>(percentages[i]))] = metric.percentiles[i];
  return {{"min", metric.min},
          {"max", metric.max},
          {"mean", metric.mean},
          {"median", metric.median},
          {"percentiles", std::move(percentiles)},
          {"coefficient_of_variance_percent", metric.coefficient_of_variance}};
}

Json device_json(const Backend& backend) {
  Json device = Json::object();
  for (const auto& [key, value] : backend.device_information()) {
    const size_t start = key.find_first_not_of(' ');
    device[start == std::string::npos ? key : key.substr(start)] = value;
  }
  return device;
}

Json tensor_json(const TensorInfo& info, const Extents& extents) {
  return {{"name", info.name}, {"type", dtype_name(info.dtype)}, {"dimensions", extents}};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

Json run_summary(const Options& options, Context& context, const PerformanceReport& report, bool complete,
                 const Json& budget) {
  const Engine& engine = context.engine();
  Json inputs = Json::array(), outputs = Json::array();
  for (size_t i = 0; i < engine.inputs().size(); ++i)
    inputs.push_back(tensor_json(engine.inputs()[i], context.input_extents(i)));
  for (size_t i = 0; i < engine.outputs().size(); ++i)
    outputs.push_back(tensor_json(engine.outputs()[i], context.output_extents(i)));
  const auto metric = [&](const MetricSummary& m) { return metric_json(m, report.percentages); };
  Json summary = {
      {"schema", "lathe-run-summary"},
      {"schema_version", "1.0"},
      {"lathe_version", version()},
      {"date", utc_now()},
      {"flags", options.words},
      {"model", options.model.onnx},
      {"engine", options.build.load_engine.empty() ? options.build.save_engine : options.build.load_engine},
      {"device", device_json(*engine.backend())},
      {"inputs", std::move(inputs)},
      {"outputs", std::move(outputs)},
      {"complete", complete},
      {"streams", report.streams},
      {"warm_up_queries", report.warm_up_queries},
      {"queries", report.queries},
      {"throughput_qps", report.throughput},
      {"host_walltime_s", report.wall_ms / 1000},
      {"compute_time_s", report.total_compute_ms / 1000},
      {"latency_ms", metric(report.latency)},
      {"enqueue_ms", metric(report.enqueue)},
      {"h2d_ms", metric(report.h2d)},
      {"compute_ms", metric(report.compute)},
      {"d2h_ms", metric(report.d2h)},
      {"device_memory_bytes", context.device_bytes()}};
  if (!budget.is_null()) summary["budget"] = budget;
  return summary;
}

}  // namespace lathe::cli
