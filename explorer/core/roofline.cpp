// SPDX-License-Identifier: Apache-2.0
//
// Time against what the device could do: roof = max(flops / peak flops, bytes / peak bandwidth). Peaks are
// given or measured; without them the best rates of this very profile stand in, which makes every verdict "at
// best": the fastest of the layers that they are taken from then has 100 % by construction, and the report
// says so.
#include <fmt/format.h>

#include <algorithm>

#include "explorer/core/analyse.h"
#include "explorer/core/decimal.h"

namespace lathe::explorer {
namespace {

// A layer that is expected to reach this share of the roof has nothing to win.
constexpr double kReachable = 0.8;
// Rates of shorter layers say more about the clock and the caches than about the device. An engine that has
// hardly any longer ones is judged by all that it has.
constexpr double kShortestForEstimate_ms = 0.02;

double typical_ms(const LayerTime& time) {
  return time.median_ms && *time.median_ms > 0 ? *time.median_ms : time.average_ms;
}

double shortest_for_estimate(const EngineData& engine) {
  double all = 0, longer = 0;
  for (const auto& layer : engine.layers) {
    const double ms = layer.time ? typical_ms(*layer.time) : 0;
    all += ms;
    if (ms >= kShortestForEstimate_ms) longer += ms;
  }
  return longer >= all / 2 ? kShortestForEstimate_ms : 0;
}

Peaks estimate_peaks(const EngineData& engine) {
  Peaks peaks;
  const double shortest = shortest_for_estimate(engine);
  for (const auto& layer : engine.layers) {
    if (!layer.time || typical_ms(*layer.time) <= 0 || typical_ms(*layer.time) < shortest) continue;
    const double seconds = typical_ms(*layer.time) / 1e3;
    if (layer.flops && *layer.flops > 0 && !layer.precision.empty()) {
      double& best = peaks.flops_per_s[layer.precision];
      best = std::max(best, *layer.flops / seconds);
    }
    if (const auto bytes = layer.bytes())
      peaks.bytes_per_s = std::max(peaks.bytes_per_s.value_or(0), *bytes / seconds);
  }
  if (!peaks.flops_per_s.empty() || peaks.bytes_per_s) peaks.source = "estimated";
  return peaks;
}

void place_layer(Layer& layer, const Peaks& peaks) {
  Roofline& roof = layer.roofline;
  if (layer.kind == "view") {  // nothing to bound
    roof.verdict = "none";
    return;
  }
  const auto peak = peaks.flops_per_s.find(layer.precision);
  const auto bytes = layer.bytes();
  std::optional<double> compute_ms, memory_ms;
  if (layer.flops && peak != peaks.flops_per_s.end() && peak->second > 0) {
    compute_ms = *layer.flops / peak->second * 1e3;
    roof.precision = layer.precision;
  }
  if (bytes && peaks.bytes_per_s && *peaks.bytes_per_s > 0) memory_ms = *bytes / *peaks.bytes_per_s * 1e3;
  if (compute_ms || memory_ms) roof.roof_ms = std::max(compute_ms.value_or(0), memory_ms.value_or(0));
  if (!layer.time || typical_ms(*layer.time) <= 0) return;
  const double ms = typical_ms(*layer.time);
  if (layer.flops) roof.flops_per_s = *layer.flops / ms * 1e3;
  if (bytes) roof.bytes_per_s = *bytes / ms * 1e3;
  if (ms < peaks.launch_ms && peaks.source != "none") {
    roof.verdict = "launch";
  } else if (roof.roof_ms && memory_ms && layer.flops) {
    roof.verdict = compute_ms.value_or(0) > *memory_ms ? "compute" : "memory";
  }
  if (!roof.roof_ms) return;
  roof.percent_of_roof = 100 * *roof.roof_ms / ms;
  roof.recoverable_ms = std::max(0.0, ms - *roof.roof_ms / kReachable);
}

void note_above(EngineData& engine, std::string_view verdict, std::string_view why) {
  std::vector<int> above;
  for (const auto& layer : engine.layers) {
    const Roofline& roof = layer.roofline;
    if (roof.verdict == verdict && roof.percent_of_roof.value_or(0) > 105) above.push_back(layer.index);
  }
  if (above.empty()) return;
  engine.note("info",
              fmt::format("{} {} {}.", above.size(), above.size() == 1 ? "layer is" : "layers are", why),
              above);
}

}  // namespace

void apply_roofline(EngineData& engine, const Peaks& given) {
  engine.peaks = given.source == "none" ? estimate_peaks(engine) : given;
  if (engine.device.kind == "cpu" && given.source == "none") engine.peaks.launch_ms = 0.002;
  if (engine.peaks.source == "estimated") {
    engine.note(
        "info",
        shortest_for_estimate(engine) > 0
            ? "Peaks were not given: the best rates of this profile stand in, so of its layers of 0.02 "
              "ms or more the fastest are at 100 % by construction; shorter ones, whose data lie "
              "in caches, may be above."
            : "Peaks were not given: the best rates of this profile stand in, so the fastest "
              "layers are at 100 % by construction.");
  }
  for (auto& layer : engine.layers) place_layer(layer, engine.peaks);
  if (!engine.peaks.unstable.empty())
    engine.note("warning",
                fmt::format("The peak of {} was different each time that it was measured: take shares of "
                            "the roof with care.",
                            fmt::join(engine.peaks.unstable, " and of ")));
  if (engine.peaks.source == "estimated") return;
  note_above(engine, "compute",
             "above the roof of computing: fewer operations than the direct method has, which is what is "
             "counted (Winograd, Strassen), or a peak that is too low");
  note_above(engine, "memory",
             "above the roof of memory: data from caches, which are faster, or a peak that is too low");
}

}  // namespace lathe::explorer
