// SPDX-License-Identifier: Apache-2.0
//
// What changed between two engines. Every difference is made of exact sums of the times in the files, so
// rows, waterfall and total agree to the last digit (for times of up to 15 significant digits; trtexec prints
// 6).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "explorer/core/comparison.h"
#include "explorer/core/decimal.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

constexpr size_t kBars = 12;

struct SideTime {
  ExactSum sum;
  bool timed = true;
};

SideTime side_time_of(const EngineData& engine, const std::vector<int>& layers) {
  SideTime result;
  for (const int index : layers) {
    const auto ms = engine.layers[static_cast<size_t>(index)].average_ms();
    result.timed = result.timed && ms;
    result.sum.add(ms.value_or(0));
  }
  return result;
}

std::string joined(const EngineData& engine, const std::vector<int>& layers, std::string Layer::*field) {
  std::vector<std::string> seen;
  for (const int index : layers) {
    const std::string& value = engine.layers[static_cast<size_t>(index)].*field;
    if (std::find(seen.begin(), seen.end(), value) == seen.end()) seen.push_back(value);
  }
  return fmt::format("{}", fmt::join(seen, ","));
}

std::string layer_parts(const EngineData& engine, const std::vector<int>& layers) {
  std::vector<std::string> names;
  for (const int index : layers)
    names.push_back(layer_label(engine.layers[static_cast<size_t>(index)].name, kLabelInText));
  return fmt::format("{}", fmt::join(names, " | "));
}

// The partition of the row's nodes into layers, as sets of names.
std::set<std::set<std::string>> partition_of(const EngineData& engine, const std::vector<int>& layers) {
  std::set<std::set<std::string>> parts;
  for (const int index : layers) {
    std::set<std::string> nodes;
    for (const auto& origin : engine.layers[static_cast<size_t>(index)].origins) nodes.insert(origin.name);
    if (!nodes.empty()) parts.insert(std::move(nodes));
  }
  return parts;
}

// Nodes that `whole` runs in one layer and `broken` in several.
std::vector<FusionChange> broken_fusions(const EngineData& whole, const std::vector<int>& whole_layers,
                                         const EngineData& broken, const std::vector<int>& broken_layers,
                                         int row) {
  std::vector<FusionChange> changes;
  if (broken_layers.size() < 2) return changes;
  for (const int index : whole_layers) {
    const Layer& layer = whole.layers[static_cast<size_t>(index)];
    std::vector<std::string> nodes;
    for (const auto& origin : layer.origins) nodes.push_back(origin.name);
    if (nodes.size() < 2) continue;
    std::vector<int> holders;
    bool still_whole = false;
    for (const int other : broken_layers) {
      const auto& origins = broken.layers[static_cast<size_t>(other)].origins;
      const auto held = std::count_if(origins.begin(), origins.end(), [&](const LayerOrigin& o) {
        return std::find(nodes.begin(), nodes.end(), o.name) != nodes.end();
      });
      if (held > 0) holders.push_back(other);
      still_whole = still_whole || held == static_cast<long>(nodes.size());
    }
    if (still_whole || holders.size() < 2) continue;
    changes.push_back(
        {row, nodes, holders,
         fmt::format("{} is one layer in {} and {} in {}: {}", layer_label(layer.name, kLabelInText),
                     whole.name, holders.size(), broken.name, layer_parts(broken, holders))});
  }
  return changes;
}

std::string status_of(const MatchedRow& row, double noise_percent) {
  if (row.baseline_layers.empty()) return "added";
  if (row.candidate_layers.empty()) return "removed";
  if (!row.delta_ms) return "untimed";
  if (std::fabs(*row.delta_ms) * 100 <= noise_percent * std::max(*row.baseline_ms, *row.candidate_ms))
    return "same";
  return *row.delta_ms < 0 ? "faster" : "slower";
}

void fill_row(MatchedRow& row, const EngineData& a, const EngineData& b, double noise_percent) {
  const SideTime before = side_time_of(a, row.baseline_layers), after = side_time_of(b, row.candidate_layers);
  const bool any = a.statistics.layer_sum_ms && b.statistics.layer_sum_ms;
  if (any && before.timed) row.baseline_ms = before.sum.value();
  if (any && after.timed) row.candidate_ms = after.sum.value();
  if (row.baseline_ms && row.candidate_ms)
    row.delta_ms = exact_difference(*row.candidate_ms, *row.baseline_ms);
  const auto& first = row.baseline_layers.empty()
                          ? b.layers[static_cast<size_t>(row.candidate_layers.front())]
                          : a.layers[static_cast<size_t>(row.baseline_layers.front())];
  row.label = first.name;
  row.baseline_precision = joined(a, row.baseline_layers, &Layer::precision);
  row.candidate_precision = joined(b, row.candidate_layers, &Layer::precision);
  const bool both = !row.baseline_layers.empty() && !row.candidate_layers.empty();
  row.precision_changed = both && row.baseline_precision != row.candidate_precision;
  row.tactic_changed = both && joined(a, row.baseline_layers, &Layer::tactic) !=
                                   joined(b, row.candidate_layers, &Layer::tactic);
  if (both && row.match == "origins") {
    const auto before_parts = partition_of(a, row.baseline_layers),
               after_parts = partition_of(b, row.candidate_layers);
    if (before_parts != after_parts) {
      row.fusion = after_parts.size() < before_parts.size()   ? "fused"
                   : after_parts.size() > before_parts.size() ? "split"
                                                              : "regrouped";
    }
  }
  row.status = status_of(row, noise_percent);
}

// What one engine's dialect cannot tell must not look like a change.
void note_limits(EnginePair& pair, const EngineData& a, const EngineData& b) {
  size_t by_origins = 0, matched = 0;
  for (const auto& row : pair.rows) {
    by_origins += row.match == "origins";
    matched += row.match != "none";
  }
  if (by_origins == 0 && matched > 0)
    pair.notes.push_back(
        {"warning", "No ONNX nodes in common: layers were aligned by name, tensors and shapes.", {}});
  if (matched == 0)
    pair.notes.push_back(
        {"warning",
         "No layer of one engine corresponds to a layer of the other: are these engines of one model?",
         {}});
  for (const auto* engine : {&a, &b}) {
    if (!engine->statistics.layer_sum_ms)
      pair.notes.push_back({"warning", engine->name + " has no profile: times are not compared.", {}});
    const auto untimed =
        std::count_if(engine->layers.begin(), engine->layers.end(), [](const Layer& l) { return !l.time; });
    if (engine->statistics.layer_sum_ms && untimed > 0)
      pair.notes.push_back(
          {"warning",
           fmt::format("{} layers of {} have no time; their rows are not compared.", untimed, engine->name),
           {}});
  }
}

}  // namespace

void add_waterfalls(EnginePair& pair, const EngineData& baseline, const EngineData& candidate) {
  std::vector<WaterfallItem> items;
  std::map<std::string, std::pair<ExactSum, std::vector<int>>> types;
  ExactSum covered;
  for (size_t i = 0; i < pair.rows.size(); ++i) {
    const auto& row = pair.rows[i];
    if (!row.delta_ms) continue;
    const Layer& first = row.baseline_layers.empty()
                             ? candidate.layers[static_cast<size_t>(row.candidate_layers.front())]
                             : baseline.layers[static_cast<size_t>(row.baseline_layers.front())];
    items.push_back({row.label, *row.delta_ms, {static_cast<int>(i)}});
    auto& type = types[first.type];
    type.first.add(*row.delta_ms);
    type.second.push_back(static_cast<int>(i));
    covered.add(*row.delta_ms);
  }
  const auto larger = [](const WaterfallItem& x, const WaterfallItem& y) {
    return std::fabs(x.delta_ms) > std::fabs(y.delta_ms);
  };
  std::stable_sort(items.begin(), items.end(), larger);
  if (items.size() > kBars) {
    WaterfallItem rest{fmt::format("{} smaller changes", items.size() - kBars + 1), 0, {}};
    ExactSum sum;
    for (size_t i = kBars - 1; i < items.size(); ++i) {
      sum.add(items[i].delta_ms);
      rest.rows.push_back(items[i].rows.front());
    }
    rest.delta_ms = sum.value();
    items.resize(kBars - 1);
    items.push_back(std::move(rest));
  }
  for (auto& [type, value] : types)
    pair.waterfall_by_type.push_back(
        {type.empty() ? "(not known)" : type, value.first.value(), std::move(value.second)});
  std::stable_sort(pair.waterfall_by_type.begin(), pair.waterfall_by_type.end(), larger);
  // Rows that have a time on one side only: what they leave uncovered is a bar of its own.
  const bool all_timed = std::all_of(pair.rows.begin(), pair.rows.end(),
                                     [](const MatchedRow& row) { return row.delta_ms.has_value(); });
  const double rest = pair.delta_ms ? exact_difference(*pair.delta_ms, covered.value()) : 0;
  if (rest != 0 && !all_timed) {
    items.push_back({"layers without a time on one side", rest, {}});
    pair.waterfall_by_type.push_back({"layers without a time on one side", rest, {}});
  }
  pair.waterfall = std::move(items);
}

EnginePair compare_pair(const std::vector<EngineData>& engines, int baseline, int candidate) {
  const EngineData& a = engines[static_cast<size_t>(baseline)];
  const EngineData& b = engines[static_cast<size_t>(candidate)];
  EnginePair pair;
  pair.baseline = baseline;
  pair.candidate = candidate;
  pair.rows = align_layers(a, b);
  for (size_t i = 0; i < pair.rows.size(); ++i) {
    auto& row = pair.rows[i];
    fill_row(row, a, b, pair.noise_percent);
    const int id = static_cast<int>(i);
    for (auto& change : broken_fusions(a, row.baseline_layers, b, row.candidate_layers, id))
      pair.fusions_lost.push_back(std::move(change));
    for (auto& change : broken_fusions(b, row.candidate_layers, a, row.baseline_layers, id))
      pair.fusions_new.push_back(std::move(change));
    if (row.precision_changed) pair.precision_changes.push_back(id);
    if (row.tactic_changed) pair.tactic_changes.push_back(id);
  }
  pair.baseline_sum_ms = a.statistics.layer_sum_ms;
  pair.candidate_sum_ms = b.statistics.layer_sum_ms;
  if (pair.baseline_sum_ms && pair.candidate_sum_ms) {
    pair.delta_ms = exact_difference(*pair.candidate_sum_ms, *pair.baseline_sum_ms);
    add_waterfalls(pair, a, b);
  }
  if (a.iterations && b.iterations)
    pair.latency = compare_times(a.iterations->compute_ms, b.iterations->compute_ms);
  note_limits(pair, a, b);
  return pair;
}

Comparison compare_engines(const std::vector<EngineData>& engines) {
  Comparison comparison;
  for (size_t i = 1; i < engines.size(); ++i)
    comparison.pairs.push_back(compare_pair(engines, 0, static_cast<int>(i)));
  return comparison;
}

}  // namespace lathe::explorer
