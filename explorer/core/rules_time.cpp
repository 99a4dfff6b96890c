// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explorer/core/decimal.h"
#include "explorer/core/findings.h"
#include "explorer/core/rule_parts.h"

namespace lathe::explorer {

std::vector<FindingRule> finding_rules() {
  return {find_dominant_layers,    find_layers_below_roof, find_small_layers,
          find_unexplained_gap,    find_noisy_timing,      find_reformats,
          find_reformat_ping_pong, find_converting_slices, find_dangling_quantisation,
          find_float_after_int8,   find_slow_types,        find_no_matrix_unit,
          find_channel_alignment,  find_gemm_alignment,    find_unfused_pointwise,
          find_split_projections,  find_shape_work,        find_opaque_blocks,
          find_inaccurate_layers};
}

// One layer with a tenth of the time: no gain is claimed, it is where to look first.
std::vector<Finding> find_dominant_layers(const EngineData& engine) {
  constexpr double kShare = 0.1;
  std::vector<Finding> findings;
  const double total = engine.statistics.layer_sum_ms.value_or(0);
  for (const auto& layer : engine.layers) {
    if (engine.layers.size() < 5 || !layer.time || layer.time->average_ms < kShare * total || total <= 0)
      continue;
    Finding f{"dominant-layer",
              fmt::format("One layer takes {:.0f} % of the time", 100 * layer.time->average_ms / total),
              "info", "high"};
    f.evidence.push_back(fmt::format("{}: {:g} ms of {:g} ms, {}", short_name(layer), layer.time->average_ms,
                                     total, layer_facts(layer)));
    f.layers = {layer.index};
    f.action = layer.roofline.percent_of_roof && *layer.roofline.percent_of_roof > 70
                   ? "It is near the roof: only less work (smaller shape, lower precision) makes it faster."
                   : "Start here: see its roofline, tactic and what it was fused from.";
    findings.push_back(std::move(f));
  }
  return findings;
}

std::vector<Finding> find_layers_below_roof(const EngineData& engine) {
  if (engine.peaks.source == "none") return {};
  std::vector<int> slow;
  ExactSum gain;
  for (const auto& layer : engine.layers) {
    const auto& roof = layer.roofline;
    const bool heavy =
        layer.time && layer.time->average_ms > 0.02 * engine.statistics.layer_sum_ms.value_or(0);
    if (!heavy || roof.verdict == "launch" || !roof.percent_of_roof || *roof.percent_of_roof >= 50 ||
        layer.is_overhead())
      continue;
    slow.push_back(layer.index);
    gain.add(roof.recoverable_ms.value_or(0));
  }
  if (slow.empty()) return {};
  std::stable_sort(slow.begin(), slow.end(), [&](int a, int b) {
    return engine.layers[static_cast<size_t>(a)].roofline.recoverable_ms.value_or(0) >
           engine.layers[static_cast<size_t>(b)].roofline.recoverable_ms.value_or(0);
  });
  Finding f{"below-roof", fmt::format("Below half of the roof: {}", count_text(slow.size(), "heavy layer")),
            "", engine.peaks.source == "estimated" ? "low" : "medium"};
  for (size_t i = 0; i < std::min<size_t>(slow.size(), 3); ++i) {
    const Layer& layer = engine.layers[static_cast<size_t>(slow[i])];
    f.evidence.push_back(fmt::format("{}: {:.0f} % of the {} roof, {:g} ms to win", short_name(layer),
                                     *layer.roofline.percent_of_roof, layer.roofline.verdict,
                                     round_ms(layer.roofline.recoverable_ms.value_or(0))));
  }
  f.layers = slow;
  f.gain_ms = gain.value();
  f.gain_basis = "time above what 80 % of the roof would take";
  f.action = "Give the tuner more time and levels, or look at the tactics that it refused (--verbose).";
  f.command = "trtexec --onnx=MODEL --saveEngine=ENGINE --builderOptimizationLevel=5";
  return {f};
}

std::vector<Finding> find_small_layers(const EngineData& engine) {
  std::vector<int> small;
  ExactSum time;
  for (const auto& layer : engine.layers) {
    if (!layer.time || layer.time->average_ms <= 0 || layer.time->average_ms >= engine.peaks.launch_ms)
      continue;
    small.push_back(layer.index);
    time.add(layer.time->average_ms);
  }
  const double total = engine.statistics.layer_sum_ms.value_or(0);
  if (small.size() < 20 || time.value() < 0.1 * total) return {};
  Finding f{"small-layers",
            fmt::format("{} layers under {:g} us take {:.0f} % of the time", small.size(),
                        engine.peaks.launch_ms * 1e3, 100 * time.value() / total),
            "", "medium"};
  f.evidence.push_back(fmt::format("{:g} ms in {} layers, {:g} us each", time.value(), small.size(),
                                   round_ms(time.value() / static_cast<double>(small.size()) * 1e3)));
  f.layers = small;
  f.gain_ms = time.value() / 2;
  f.gain_basis = "half of their time, which is the cost of starting them";
  f.action = engine.device.kind == "cpu" ? "Raise the batch, or simplify the graph so that they fuse."
                                         : "Capture a graph, so that launches cost less; raise the batch.";
  f.command = engine.device.kind == "cpu" ? "" : "trtexec --loadEngine=ENGINE --useCudaGraph";
  return {f};
}

std::vector<Finding> find_unexplained_gap(const EngineData& engine) {
  const auto& s = engine.statistics;
  if (!s.gap_ms || !s.engine_latency_ms || *s.engine_latency_ms <= 0) return {};
  const double share = *s.gap_ms / *s.engine_latency_ms;
  if (std::fabs(share) < 0.1) return {};
  Finding f{
      "sum-differs-from-latency",
      fmt::format("The layers' sum and the engine's latency differ by {:.0f} %", 100 * std::fabs(share)),
      "info", "high"};
  f.evidence.push_back(fmt::format("engine {:g} ms (mean), layers {:g} ms (sum of averages)",
                                   *s.engine_latency_ms, s.layer_sum_ms.value_or(0)));
  for (const auto& part : s.gap_parts) f.evidence.push_back(fmt::format("{:+g} ms: {}", part.ms, part.text));
  if (*s.gap_ms > 0) {
    f.gain_ms = *s.gap_ms;
    f.gain_basis = "time in which no layer runs";
    f.action = "Launch less, or capture a graph.";
    f.command = "trtexec --loadEngine=ENGINE --useCudaGraph --useSpinWait";
  } else {
    f.action = "Trust the shares of the layers, not their sum.";
  }
  return {f};
}

std::vector<Finding> find_noisy_timing(const EngineData& engine) {
  const auto& compute = engine.statistics.compute;
  if (!compute || !compute->variation_percent || *compute->variation_percent < 10) return {};
  Finding f{"noisy-timing",
            fmt::format("Times vary by {:.0f} % from run to run", *compute->variation_percent), "info",
            "high"};
  f.evidence.push_back(fmt::format("{} queries: min {:g}, median {:g}, p99 {:g}, max {:g} ms", compute->count,
                                   compute->min_ms, compute->median_ms,
                                   compute->p99_ms.value_or(compute->max_ms), compute->max_ms));
  f.action = "Lock the clocks, keep others off the machine, measure longer; use medians.";
  f.command = "trtexec --loadEngine=ENGINE --warmUp=1000 --duration=10";
  return {f};
}

}  // namespace lathe::explorer
