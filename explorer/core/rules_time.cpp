// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "explorer/core/decimal.h"
#include "explorer/core/findings.h"
#include "explorer/core/rule_parts.h"
#include "explorer/core/text.h"

namespace lathe::explorer {

std::vector<FindingRule> finding_rules() {
  return {find_reference_layers,
          find_higher_precision,
          find_dominant_layers,
          find_layers_below_roof,
          find_small_layers,
          find_unexplained_gap,
          find_noisy_timing,
          find_reformats,
          find_reformat_ping_pong,
          find_converting_slices,
          find_dangling_quantisation,
          find_float_after_int8,
          find_slow_types,
          find_no_matrix_unit,
          find_channel_alignment,
          find_gemm_alignment,
          find_unfused_pointwise,
          find_split_projections,
          find_shape_work,
          find_opaque_blocks,
          find_inaccurate_layers,
          find_slower_than_tuned,
          find_held_memory};
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
    const std::string facts = layer_facts(layer);
    f.evidence.push_back(fmt::format(
        "{}{}{}{}", short_name(layer),
        engine.measurement.usable ? fmt::format(": {} of {}", ms_text(layer.time->average_ms), ms_text(total))
                                  : "",
        facts.empty() ? "" : ", ", facts));
    f.layers = {layer.index};
    f.action = layer.roofline.percent_of_roof && *layer.roofline.percent_of_roof > 70
                   ? "It is near the roof: only less work (smaller shape, lower precision) makes it faster."
                   : "Start here: see its roofline, tactic and what it was fused from.";
    findings.push_back(std::move(f));
  }
  std::stable_sort(findings.begin(), findings.end(), [&](const Finding& a, const Finding& b) {
    const auto ms = [&](const Finding& f) {
      return engine.layers[static_cast<size_t>(f.layers[0])].time->average_ms;
    };
    return ms(a) > ms(b);
  });
  return findings;
}

std::vector<Finding> find_layers_below_roof(const EngineData& engine) {
  // Shares of a roof need both the times and the roof.
  if (engine.peaks.source == "none" || !engine.measurement.usable) return {};
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
            "", engine.peaks.source == "estimated" || !engine.peaks.unstable.empty() ? "low" : "medium"};
  for (size_t i = 0; i < std::min<size_t>(slow.size(), 3); ++i) {
    const Layer& layer = engine.layers[static_cast<size_t>(slow[i])];
    f.evidence.push_back(fmt::format("{}: {:.0f} % of the {} roof, {} to win", short_name(layer),
                                     *layer.roofline.percent_of_roof, layer.roofline.verdict,
                                     ms_text(layer.roofline.recoverable_ms.value_or(0))));
  }
  f.layers = slow;
  f.gain_ms = gain.value();
  f.gain_basis = "time above what 80 % of the roof would take";
  f.command = build_command(engine, "--builderOptimizationLevel=5");
  f.action =
      f.command.empty()
          ? "The tuner had all its levels: see with --verbose which tactics it refused, and why; a narrower "
            "type or another batch may suit the device better."
          : "Let the tuner try more tactics, and look at those that it refused (--verbose).";
  return {f};
}

std::vector<Finding> find_small_layers(const EngineData& engine) {
  std::vector<int> small;
  ExactSum time;
  for (const auto& layer : engine.layers) {
    if (!layer.time || layer.kind == "view" || layer.time->average_ms <= 0 ||
        layer.time->average_ms >= engine.peaks.launch_ms)
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
  f.evidence.push_back(
      fmt::format("{} in {} layers", time_words(engine, time.value()), small.size()) +
      (engine.measurement.usable
           ? fmt::format(", {} us each", three_digits(time.value() / static_cast<double>(small.size()) * 1e3))
           : ""));
  f.layers = small;
  f.gain_ms = time.value() / 2;
  f.gain_basis = "half of their time, which is the cost of starting them";
  f.action = engine.device.kind == "cpu" ? "Raise the batch, or simplify the graph so that they fuse."
                                         : "Capture a graph, so that launches cost less; raise the batch.";
  f.command = engine.device.kind == "cpu" ? "" : run_command(engine, "--useCudaGraph");
  return {f};
}

std::vector<Finding> find_unexplained_gap(const EngineData& engine) {
  const auto& s = engine.statistics;
  const auto gap = s.gap_median_ms ? s.gap_median_ms : s.gap_ms;
  const double whole = s.gap_median_ms && s.compute ? s.compute->median_ms : s.engine_latency_ms.value_or(0);
  if (!gap || whole <= 0 || std::fabs(*gap / whole) <= 0.1) return {};
  double idle = 0;
  for (const auto& part : s.gap_parts) {
    if (part.name == "idle_or_launch") idle = part.ms;
  }
  Finding f{"sum-differs-from-latency",
            fmt::format("The layers' sum and the engine's latency differ by {:.0f} %",
                        100 * std::fabs(*gap / whole)),
            "info", "high"};
  f.evidence.push_back(s.gap_text);
  if (idle <= 0) {
    f.action = "Trust the shares of the layers, not their sum.";
    return {f};
  }
  if (const auto busy = share_of_others(engine); busy.value_or(0) >= 10) {
    f.evidence.push_back(fmt::format("other programs had {:.0f} % of the processors", *busy));
    f.action = "Measure again on a quiet machine: the engine may have waited for the others.";
    f.command = run_command(engine, "--warmUp=1000 --duration=10");
    return {f};
  }
  f.gain_ms = round_ms(idle);
  f.gain_basis = "time in which no layer runs";
  if (engine.device.kind == "cpu") {
    f.action =
        "Threads wait between layers: see whether fewer of them are as fast, and keep others off the "
        "machine.";
    f.command = run_command(engine, "--cpuThreads=1 --separateProfileRun --dumpProfile");
  } else if (engine.device.kind != "gpu") {
    f.action = "On a GPU: launch less, or capture a graph. On a CPU: see whether fewer threads are as fast.";
    f.command = run_command(engine, "--separateProfileRun --dumpProfile");
  } else {
    f.action = "Launch less, or capture a graph.";
    f.command = run_command(engine, "--useCudaGraph --useSpinWait");
  }
  return {f};
}

// Runs of the engine that differ from each other, and layers whose mean is far above their median: something
// else had the machine for a while.
std::vector<Finding> find_noisy_timing(const EngineData& engine) {
  const auto& s = engine.statistics;
  const double spread = s.compute ? s.compute->variation_percent.value_or(0) : 0;
  const double above = s.layer_median_sum_ms && *s.layer_median_sum_ms > 0
                           ? 100 * (s.layer_sum_ms.value_or(0) / *s.layer_median_sum_ms - 1)
                           : 0;
  const auto busy = share_of_others(engine);
  const double others = busy.value_or(0);
  if (spread < 10 && above < 10 && others < 10) return {};
  Finding f{"noisy-timing",
            spread >= 10  ? fmt::format("Times vary by {:.0f} % from run to run", spread)
            : above >= 10 ? fmt::format("The layers' means are {:.0f} % above their medians", above)
                          : "The machine had other work while it measured",
            "info", "high"};
  if (s.compute && s.compute->count > 0)
    f.evidence.push_back(fmt::format("{} queries: min {}, median {}, p99 {}, max {}", s.compute->count,
                                     three_digits(s.compute->min_ms), three_digits(s.compute->median_ms),
                                     three_digits(s.compute->p99_ms.value_or(s.compute->max_ms)),
                                     ms_text(s.compute->max_ms)));
  if (s.layer_median_sum_ms)
    f.evidence.push_back(fmt::format("layers: {} by their averages, {} by their medians",
                                     ms_text(s.layer_sum_ms.value_or(0)), ms_text(*s.layer_median_sum_ms)));
  if (busy) f.evidence.push_back(fmt::format("other programs had {:.0f} % of the processors", others));
  f.layers = layers_where(engine, [](const Layer& l) {
    return l.time && l.time->median_ms && *l.time->median_ms > 0 &&
           l.time->average_ms > 1.5 * *l.time->median_ms;
  });
  f.action = "Lock the clocks, keep others off the machine, measure longer; until then use medians.";
  f.command = run_command(engine, "--warmUp=1000 --duration=10");
  return {f};
}

// The builder timed each tactic by itself; a layer that needs much longer in the engine finds its data or its
// threads in another state there. Medians, so that a disturbed run is no reason.
std::vector<Finding> find_slower_than_tuned(const EngineData& engine) {
  const auto tuned_ms = [](const Layer& l) {
    const auto found = l.attributes->find("TacticTimeMs");
    return found != l.attributes->end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const auto lost_ms = [&](const Layer& l) {
    const double tuned = tuned_ms(l);
    if (tuned <= 0 || !l.time || !l.time->median_ms) return 0.0;
    return *l.time->median_ms > 1.3 * tuned ? *l.time->median_ms - tuned : 0.0;
  };
  const auto layers = layers_where(engine, [&](const Layer& l) { return lost_ms(l) > 0; });
  double lost = 0;
  for (const int i : layers) lost += lost_ms(engine.layers[static_cast<size_t>(i)]);
  if (!engine.measurement.usable || layers.empty() ||
      lost < 0.05 * engine.statistics.layer_sum_ms.value_or(0))
    return {};
  Finding f{"slower-than-tuned",
            fmt::format("Slower than when the builder chose: {}", count_text(layers.size(), "layer")), "",
            "medium"};
  f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
    return fmt::format("{}: {} (median), {} when {} was chosen", short_name(l), ms_text(*l.time->median_ms),
                       ms_text(tuned_ms(l)), l.tactic);
  });
  f.layers = layers;
  f.gain_ms = round_ms(lost);
  f.gain_basis = "their medians above the times that decided";
  f.action =
      "The machine was in another state then: clocks, threads, others at work, operands in a cache. Run "
      "again when it is "
      "quiet; if it stays, time the tactics anew here.";
  f.command = retune_command(engine);
  return {f};
}

}  // namespace lathe::explorer
