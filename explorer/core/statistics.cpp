// SPDX-License-Identifier: Apache-2.0
//
// The engine as a whole: sums, series, groups, and why the sum of the layers is not the latency of the
// engine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>

#include "explorer/core/analyse.h"
#include "explorer/core/decimal.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

// trtexec's definition, product in 32 bits included: p99 of exactly 100 values is the largest.
double percentile(const std::vector<double>& sorted, float percent) {
  const auto count = static_cast<int64_t>(sorted.size());
  const auto above = static_cast<int64_t>(std::floor((1 - percent / 100) * static_cast<float>(count)));
  return sorted[static_cast<size_t>(std::max<int64_t>(count - 1 - above, 0))];
}

std::string file_of(const EngineData& engine, std::string_view role) {
  for (const auto& source : engine.sources) {
    if (source.role == role) return source.file;
  }
  return "";
}

void summarize_series_of(EngineData& engine) {
  Statistics& s = engine.statistics;
  if (engine.iterations) {
    const auto series = [](const std::vector<double>& values) {
      return values.empty() ? std::nullopt : std::optional(summarize_series(values));
    };
    s.latency = series(engine.iterations->latency_ms);
    s.compute = series(engine.iterations->compute_ms);
    s.h2d = series(engine.iterations->h2d_ms);
    s.d2h = series(engine.iterations->d2h_ms);
    s.enqueue = series(engine.iterations->enqueue_ms);
    s.engine_latency_ms = s.compute->mean_ms;
    s.engine_latency_source = file_of(engine, "times") + ": mean computeMs";
  } else {
    const auto series = [&](const char* key) { return read_series_text(value_of(s.summary, key)); };
    s.latency = series("Latency");
    s.compute = series("GPU Compute Time");
    s.h2d = series("H2D Latency");
    s.d2h = series("D2H Latency");
    s.enqueue = series("Enqueue Time");
    if (s.compute) {
      s.engine_latency_ms = s.compute->mean_ms;
      s.engine_latency_source = file_of(engine, "profiling_log") + ": mean GPU Compute Time";
    }
  }
  s.throughput_qps = leading_number(value_of(s.summary, "Throughput"));
}

double round_digits(double value) {
  return std::strtod(fmt::format("{:.3e}", value).c_str(), nullptr);
}

void sort_parts(Statistics& s) {
  std::stable_sort(s.gap_parts.begin(), s.gap_parts.end(),
                   [](const GapPart& a, const GapPart& b) { return std::fabs(a.ms) > std::fabs(b.ms); });
}

// Streams that run beside each other make the layer sum larger than the engine's latency; clocks read between
// layers, too; gaps between launches make it smaller. Means are compared: only they add up, a sum of medians
// is the median of nothing.
void explain_gap(EngineData& engine) {
  Statistics& s = engine.statistics;
  const auto layers_ms = s.layer_sum_ms;
  if (!layers_ms || !s.engine_latency_ms) return;
  s.gap_ms = exact_difference(*s.engine_latency_ms, *layers_ms);
  double rest = *s.gap_ms;
  // A mean is above its median when something took the machine away for a while; each of the two runs had its
  // own such moments. What is left is the engine's.
  const auto& median = s.compute ? std::optional(s.compute->median_ms) : std::nullopt;
  if (median && *median > 0 && s.layer_median_sum_ms && *s.layer_median_sum_ms > 0) {
    const double engine_ms = exact_difference(*s.engine_latency_ms, *median);
    const double layer_ms = exact_difference(*layers_ms, *s.layer_median_sum_ms);
    const double disturbed = exact_difference(engine_ms, layer_ms);
    if (std::fabs(disturbed) >= 0.02 * *s.engine_latency_ms) {
      s.gap_parts.push_back({"disturbed_runs", disturbed,
                             fmt::format("Means against medians, which slow runs lift: {:+g} ms in the "
                                         "engine's runs, {:+g} ms in its layers'.",
                                         round_digits(engine_ms), round_digits(layer_ms))});
      rest = exact_difference(rest, disturbed);
    }
  }
  std::map<int64_t, ExactSum> streams;
  for (const auto& layer : engine.layers) {
    if (layer.time) streams[layer.stream].add(layer.time->average_ms);
  }
  if (streams.size() > 1 && rest < 0) {
    double longest = 0;
    for (const auto& [stream, sum] : streams) longest = std::max(longest, sum.value());
    const double overlap = std::max(rest, exact_difference(longest, *layers_ms));
    s.gap_parts.push_back(
        {"overlap", overlap,
         fmt::format("Layers run on {} streams: up to this much of the sum can run at the same time.",
                     streams.size())});
    rest = exact_difference(rest, overlap);
  }
  if (rest == 0) return sort_parts(s);
  if (rest > 0) {
    s.gap_parts.push_back(
        {"idle_or_launch", rest,
         "Time between layers: launches, waiting, and what no layer of the profile covers."});
  } else if (-rest <= 0.3 * *layers_ms) {
    s.gap_parts.push_back(
        {"timing_overhead", rest,
         "Reading a clock between layers keeps them from overlapping and lengthens the profiled run."});
  } else {
    s.gap_parts.push_back({"profile_is_slower", rest,
                           "The profiled run was much slower than the timed one: other clocks, other load, "
                           "or no graph capture while profiling."});
  }
  sort_parts(s);
}

// The same in words, with medians where both sides have them: slow runs of a busy machine lift means, and say
// nothing of the engine.
void say_gap(EngineData& engine) {
  Statistics& s = engine.statistics;
  if (!s.gap_ms) return;
  double whole = *s.engine_latency_ms, layers = *s.layer_sum_ms;
  std::string what = "on average";
  if (s.compute && s.compute->median_ms > 0 && s.layer_median_sum_ms.value_or(0) > 0) {
    whole = s.compute->median_ms;
    layers = *s.layer_median_sum_ms;
    what = "in a typical run";
    s.gap_median_ms = exact_difference(whole, layers);
  }
  const double gap = whole - layers;
  s.gap_text = fmt::format("The engine takes {} {}; its layers, timed one by one, add up to {}",
                           ms_text(whole), what, ms_text(layers));
  const auto has_part = [&](std::string_view name) {
    return std::any_of(s.gap_parts.begin(), s.gap_parts.end(),
                       [&](const GapPart& part) { return part.name == name; });
  };
  if (std::fabs(gap) < 0.05 * whole) {
    s.gap_text += ": they agree.";
  } else if (gap > 0) {
    s.gap_text +=
        fmt::format(". The other {} pass between layers: starting them, waiting for threads.", ms_text(gap));
  } else if (has_part("overlap")) {
    s.gap_text += ": some of them run at the same time, on several streams.";
  } else if (-gap <= 0.3 * layers) {
    s.gap_text += ": reading a clock between layers takes time. Shares are right, the sum is not.";
  } else {
    s.gap_text +=
        ": the run with times per layer was much slower (other clocks, other load). Shares may be right, "
        "the sum is not.";
  }
}

void sum_layers(EngineData& engine) {
  Statistics& s = engine.statistics;
  ExactSum average, median, overhead;
  bool timed = false, medians = true;
  double flops = 0, bytes = 0;
  bool any_flops = false, any_bytes = false;
  std::map<int64_t, ExactSum> starts;
  for (auto& layer : engine.layers) {
    if (layer.time) {
      timed = true;
      layer.time->start_ms = starts[layer.stream].value();
      starts[layer.stream].add(layer.time->average_ms);
      average.add(layer.time->average_ms);
      if (layer.is_overhead()) overhead.add(layer.time->average_ms);
      medians = medians && layer.time->median_ms;
      if (layer.time->median_ms) median.add(*layer.time->median_ms);
    }
    if (layer.flops) flops += *layer.flops, any_flops = true;
    if (layer.bytes()) bytes += *layer.bytes(), any_bytes = true;
    for (const auto* side : {&layer.inputs, &layer.outputs}) {
      for (const auto& use : *side) {
        if (!use.is_weights) s.activation_bytes += use.bytes.value_or(0);
      }
    }
  }
  s.layer_count = static_cast<int>(engine.layers.size());
  if (timed) {
    s.layer_sum_ms = average.value();
    s.overhead_ms = overhead.value();
    if (medians) s.layer_median_sum_ms = median.value();
  }
  if (any_flops) s.flops = flops;
  if (any_bytes) s.bytes = bytes;
  s.weights_bytes = engine.memory.weights_bytes;
  s.peak_memory_bytes = engine.memory.peak_bytes;
}

std::vector<Group> group_layers(const EngineData& engine,
                                const std::function<std::string(const Layer&)>& key_of) {
  std::map<std::string, std::vector<int>> members;
  for (const auto& layer : engine.layers) members[key_of(layer)].push_back(layer.index);
  std::vector<Group> groups;
  for (auto& [key, layers] : members) {
    Group group{key, {}, {}, {}, {}, std::move(layers)};
    ExactSum time;
    for (const int index : group.layers) {
      const Layer& layer = engine.layers[static_cast<size_t>(index)];
      if (layer.time) group.time_ms = time.add(layer.time->average_ms).value();
      if (layer.flops) group.flops = group.flops.value_or(0) + *layer.flops;
      if (layer.bytes()) group.bytes = group.bytes.value_or(0) + *layer.bytes();
    }
    if (group.time_ms && engine.statistics.layer_sum_ms.value_or(0) > 0)
      group.percent = 100 * *group.time_ms / *engine.statistics.layer_sum_ms;
    groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    if (a.time_ms.value_or(0) != b.time_ms.value_or(0)) return a.time_ms.value_or(0) > b.time_ms.value_or(0);
    return a.layers.size() > b.layers.size();
  });
  return groups;
}

}  // namespace

Series summarize_series(std::vector<double> values) {
  Series series;
  series.count = values.size();
  if (values.empty()) return series;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  series.min_ms = values.front();
  series.max_ms = values.back();
  ExactSum sum;
  for (const double v : values) sum.add(v);
  const auto count = static_cast<double>(values.size());
  series.mean_ms = sum.value() / count;
  series.median_ms = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  series.p90_ms = percentile(values, 90);
  series.p95_ms = percentile(values, 95);
  series.p99_ms = percentile(values, 99);
  double squares = 0;
  for (const double v : values) squares += (v - series.mean_ms) * (v - series.mean_ms);
  if (series.mean_ms > 0) series.variation_percent = 100 * std::sqrt(squares / count) / series.mean_ms;
  return series;
}

void summarize(EngineData& engine) {
  sum_layers(engine);
  summarize_series_of(engine);
  explain_gap(engine);
  say_gap(engine);
  engine.groups.by_type = group_layers(engine, [](const Layer& l) { return l.type; });
  engine.groups.by_precision = group_layers(engine, [](const Layer& l) { return l.precision; });
  engine.groups.by_output_precision = group_layers(engine, [](const Layer& l) { return l.output_precision; });
  engine.groups.by_tactic = group_layers(engine, [](const Layer& l) { return l.tactic; });
  engine.groups.by_stream = group_layers(engine, [](const Layer& l) { return std::to_string(l.stream); });
}

}  // namespace lathe::explorer
