// SPDX-License-Identifier: Apache-2.0
//
// Can the times be used, and what ran where and when? Whoever opens a report reads this first: on a machine
// that others use, times say more about the others than about the engine, and nothing should be concluded
// from them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "explorer/core/analyse.h"
#include "explorer/core/rule_parts.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

// Others on so much of the machine leave no time as it would be; on less they do when runs differ, too.
constexpr double kCrowdedPercent = 25, kSharedPercent = 10;
// A tenth of the queries is so much slower than the typical one, or the layers' means are above their
// medians.
constexpr double kUnsteadyPercent = 20, kRestlessPercent = 10;
constexpr double kThrottledShare = 0.25;

double above_percent(double high, double low) {
  return low > 0 ? 100 * (high / low - 1) : 0;
}

// How much slower the slowest tenth of the queries is than the typical one.
double slow_tenth_percent(const Statistics& s) {
  if (!s.compute) return 0;
  if (s.compute->p90_ms) return above_percent(*s.compute->p90_ms, s.compute->median_ms);
  return s.compute->variation_percent.value_or(0);
}

double layers_above_percent(const Statistics& s) {
  if (!s.layer_sum_ms || !s.layer_median_sum_ms) return 0;
  return above_percent(*s.layer_sum_ms, *s.layer_median_sum_ms);
}

double throttled_share(const EngineData& engine) {
  if (engine.hardware_samples.empty()) return 0;
  const auto count = std::count_if(engine.hardware_samples.begin(), engine.hardware_samples.end(),
                                   [](const HardwareSample& s) { return s.throttled.value_or(false); });
  return static_cast<double>(count) / static_cast<double>(engine.hardware_samples.size());
}

std::string sentence(const std::vector<std::string>& reasons) {
  std::string text;
  for (size_t i = 0; i < reasons.size(); ++i)
    text += (i == 0 ? "" : i + 1 == reasons.size() ? ", and " : ", ") + reasons[i];
  return text;
}

std::string property(const EngineData& engine, std::string_view key) {
  for (const auto& [name, value] : engine.device.properties) {
    if (name == key) return value;
  }
  return "";
}

std::string threads_text(const EngineData& engine) {
  const bool cpu = engine.device.kind == "cpu";
  const std::string cores = property(engine, "Cores"), sms = property(engine, "SMs");
  const std::string count = cpu && !cores.empty() ? cores : sms;
  if (count.empty()) return "";
  if (!cpu) return count + " SMs";
  return count + (count == "1" ? " thread" : " threads");
}

// "1x3x224x224"; with names where there are several inputs.
std::string shapes_text(const EngineData& engine) {
  constexpr size_t kShown = 3;
  std::vector<std::string> texts;
  std::string only;
  for (const auto& binding : engine.bindings) {
    if (binding.io != "input") continue;
    // A binding has the range of the engine; the layers that read it have the shape of the run.
    const bool run = binding.tensor && *binding.tensor < static_cast<int>(engine.tensors.size());
    const Shape& shape = run ? engine.tensors[static_cast<size_t>(*binding.tensor)].shape : binding.shape;
    only = shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
    texts.push_back(binding.name + ":" + only);
  }
  if (texts.size() <= 1) return only;
  const size_t left = texts.size() > kShown ? texts.size() - kShown : 0;
  texts.resize(texts.size() - left);
  return fmt::format("{}{}", fmt::join(texts, ", "), left > 0 ? fmt::format(" and {} more", left) : "");
}

// The types that computed, the one with most time first: "BF16 and FP32".
std::string precision_text(const EngineData& engine) {
  const auto by_time = [&](const std::string& type) {
    double weight = 0;
    for (const auto& layer : engine.layers) {
      if (layer.precision == type) weight += layer.time ? layer.time->average_ms : 0;
    }
    return weight;
  };
  std::set<std::string> types;
  for (const auto& layer : engine.layers) {
    if (layer.kind == "compute" && (layer.precision.starts_with("FP") || layer.precision == "BF16" ||
                                    layer.precision == "INT8" || layer.precision == "INT4"))
      types.insert(layer.precision);
  }
  std::vector<std::string> order(types.begin(), types.end());
  std::stable_sort(order.begin(), order.end(),
                   [&](const std::string& a, const std::string& b) { return by_time(a) > by_time(b); });
  return fmt::format("{}", fmt::join(order, " and "));
}

}  // namespace

std::optional<double> share_of_others(const EngineData& engine) {
  double sum = 0, count = 0;
  for (const auto& sample : engine.hardware_samples) {
    if (sample.others_percent) sum += *sample.others_percent, ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

void judge_measurement(EngineData& engine) {
  Measurement& m = engine.measurement;
  m = {};
  const auto others = share_of_others(engine);
  const double slow = slow_tenth_percent(engine.statistics), above = layers_above_percent(engine.statistics);
  const bool restless = slow >= kRestlessPercent || above >= kRestlessPercent;
  if (others && (*others >= kCrowdedPercent || (*others >= kSharedPercent && restless)))
    m.reasons.push_back(fmt::format("other programs had {:.0f} % of the processors", *others));
  if (slow >= kUnsteadyPercent)
    m.reasons.push_back(
        fmt::format("a tenth of the runs took at least {:.0f} % longer than the typical one", slow));
  if (above >= kUnsteadyPercent)
    m.reasons.push_back(fmt::format("the layers' means are {:.0f} % above their medians", above));
  if (throttled_share(engine) >= kThrottledShare)
    m.reasons.emplace_back("the device slowed itself down (throttled)");
  m.usable = m.reasons.empty();
  if (!m.usable)
    m.text = fmt::format("These times are not usable: {}. Measure again when the machine is quiet.",
                         sentence(m.reasons));
}

void describe_run(EngineData& engine) {
  engine.context = {engine.device.name,     threads_text(engine), shapes_text(engine),
                    precision_text(engine), engine.date,          engine.producer};
  if (engine.context.version.empty()) {
    const std::string version = property(engine, "TensorRT version");
    if (!version.empty()) engine.context.version = "TensorRT " + version;
  }
}

}  // namespace lathe::explorer
