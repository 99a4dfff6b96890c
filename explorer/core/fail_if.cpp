// SPDX-License-Identifier: Apache-2.0
//
// Conditions for a build server: "latency>3% or fusion lost". A condition is a quantity with a bound, or an
// event. Every condition is decided for every pair and reported with the figure that decided; the whole fails
// when some `or` part has all its `and` parts true.
//
// A latency from times files that crosses its bound only within the noise does not fail: the interval must
// exclude 0.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>

#include "base/error.h"
#include "explorer/core/comparison.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

constexpr std::string_view kUnderstood =
    "quantities with a bound (latency, layer sum, throughput, memory, weights, layers, any layer; for "
    "example \"latency>3%\", \"layer sum>0.2ms\", "
    "\"any layer>10%\", \"memory>5%\") and events (fusion lost, fusion new, precision changed, tactic "
    "changed, layer added, layer removed, "
    "reformat added), joined by `or` and `and`";

struct Outcome {
  bool failed = false;
  std::string text;
};

struct PairView {
  const EngineData &a, &b;
  const EnginePair& pair;
};

std::string normalised(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (!result.empty() && result.back() != ' ') result += ' ';
    } else {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  while (result.ends_with(' ')) result.pop_back();
  return result;
}

std::vector<std::string> split_words(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t at; (at = text.find(separator, start)) != std::string::npos; start = at + separator.size())
    parts.push_back(text.substr(start, at - start));
  parts.push_back(text.substr(start));
  return parts;
}

[[noreturn]] void complain(const std::string& condition, std::string_view why) {
  throw_input_error(fmt::format("--fail-if: \"{}\": {}; understood are {}", condition, why, kUnderstood));
}

struct Bound {
  char relation = '>';
  double value = 0;
  std::string unit;  // "%", "ms", ""
};

struct Quantity {
  std::optional<double> before, after;
  bool in_noise = false;  // the change is not significant
  std::string unit;
};

Outcome judge(const Quantity& quantity, const Bound& bound, const std::string& name) {
  if (!quantity.before || !quantity.after)
    return {true, fmt::format("{} is not known for both engines, so the bound cannot hold", name)};
  const double change = *quantity.after - *quantity.before;
  if (bound.unit == "%" && *quantity.before == 0)
    return {change != 0 && bound.relation == '>', fmt::format("{} was 0 and is {:g}", name, *quantity.after)};
  const double measured = bound.unit == "%" ? 100 * change / *quantity.before : change;
  const bool crossed = bound.relation == '>' ? measured > bound.value : measured < bound.value;
  std::string text = fmt::format("{} {:g} -> {:g}{}, {:+.3g}{}", name, *quantity.before, *quantity.after,
                                 quantity.unit, measured, bound.unit == "%" ? " %" : quantity.unit);
  if (crossed && quantity.in_noise) return {false, text + ", but within the noise"};
  return {crossed, text};
}

Quantity latency_of(const PairView& v) {
  if (v.pair.latency)
    return {v.pair.latency->baseline_ms, v.pair.latency->candidate_ms,
            v.pair.latency->low_percent && !v.pair.latency->significant, " ms"};
  const auto& a = v.a.statistics;
  const auto& b = v.b.statistics;
  if (a.engine_latency_ms && b.engine_latency_ms)
    return {a.engine_latency_ms, b.engine_latency_ms, false, " ms"};
  return {a.layer_sum_ms, b.layer_sum_ms, false, " ms"};
}

Outcome judge_any_layer(const PairView& v, const Bound& bound) {
  const MatchedRow* worst = nullptr;
  double most = 0;
  for (const auto& row : v.pair.rows) {
    if (!row.delta_ms || row.baseline_layers.empty() || *row.baseline_ms <= 0) continue;
    const double change = bound.unit == "%" ? 100 * *row.delta_ms / *row.baseline_ms : *row.delta_ms;
    if (worst == nullptr || change > most) worst = &row, most = change;
  }
  if (worst == nullptr) return {true, "no row has times on both sides"};
  return {most > bound.value,
          fmt::format("largest growth {:+.3g}{}: {}", most, bound.unit == "%" ? " %" : " ms",
                      layer_label(worst->label, kLabelInText))};
}

Outcome judge_bound(const PairView& v, const std::string& name, const Bound& bound,
                    const std::string& condition) {
  const auto& a = v.a.statistics;
  const auto& b = v.b.statistics;
  const auto real = [](int64_t value) { return std::optional<double>(static_cast<double>(value)); };
  if (name == "latency") return judge(latency_of(v), bound, "latency");
  if (name == "layer sum") return judge({a.layer_sum_ms, b.layer_sum_ms, false, " ms"}, bound, "layer sum");
  if (name == "throughput")
    return judge({a.throughput_qps, b.throughput_qps, false, " queries/s"}, bound, "throughput");
  if (name == "memory")
    return judge({real(a.peak_memory_bytes), real(b.peak_memory_bytes), false, " bytes"}, bound, "memory");
  if (name == "weights")
    return judge({real(a.weights_bytes), real(b.weights_bytes), false, " bytes"}, bound, "weights");
  if (name == "layers") return judge({real(a.layer_count), real(b.layer_count), false, ""}, bound, "layers");
  if (name == "any layer" && bound.relation == '>') return judge_any_layer(v, bound);
  complain(condition, fmt::format("no quantity is called \"{}\"", name));
}

Outcome count_outcome(size_t count, const std::string& what, const std::string& first) {
  return {count > 0, count == 0 ? "none" : fmt::format("{} {}, first: {}", count, what, first)};
}

template <class Holds>
Outcome count_rows(const PairView& v, const std::string& what, Holds holds) {
  size_t count = 0;
  std::string first;
  for (const auto& row : v.pair.rows) {
    if (!holds(row)) continue;
    if (count++ == 0) first = layer_label(row.label, kLabelInText);
  }
  return count_outcome(count, what, first);
}

Outcome judge_event(const PairView& v, const std::string& event) {
  const auto first_of = [](const std::vector<FusionChange>& list) {
    return list.empty() ? "" : list.front().text;
  };
  if (event == "fusion lost")
    return count_outcome(v.pair.fusions_lost.size(), "lost", first_of(v.pair.fusions_lost));
  if (event == "fusion new")
    return count_outcome(v.pair.fusions_new.size(), "new", first_of(v.pair.fusions_new));
  if (event == "precision changed")
    return count_rows(v, "rows", [](const MatchedRow& r) { return r.precision_changed; });
  if (event == "tactic changed")
    return count_rows(v, "rows", [](const MatchedRow& r) { return r.tactic_changed; });
  if (event == "layer added")
    return count_rows(v, "added", [](const MatchedRow& r) { return r.baseline_layers.empty(); });
  if (event == "layer removed")
    return count_rows(v, "removed", [](const MatchedRow& r) { return r.candidate_layers.empty(); });
  if (event == "reformat added") {
    return count_rows(v, "added", [&](const MatchedRow& r) {
      return r.baseline_layers.empty() &&
             v.b.layers[static_cast<size_t>(r.candidate_layers.front())].is_overhead();
    });
  }
  complain(event, "no event is called that, and it has no bound");
}

Outcome judge_condition(const PairView& v, const std::string& condition) {
  const size_t at = condition.find_first_of("<>");
  if (at == std::string::npos) return judge_event(v, condition);
  Bound bound;
  bound.relation = condition[at];
  std::string name = normalised(condition.substr(0, at));
  std::string figure = normalised(condition.substr(at + 1));
  const auto end = std::from_chars(figure.data(), figure.data() + figure.size(), bound.value);
  if (end.ec != std::errc()) complain(condition, "there is no number after the relation");
  bound.unit =
      normalised(std::string_view(end.ptr, static_cast<size_t>(figure.data() + figure.size() - end.ptr)));
  if (bound.unit == "us") bound.unit = "ms", bound.value /= 1000;
  const bool time = name == "latency" || name == "layer sum" || name == "any layer";
  if (bound.unit != "%" && !(time && bound.unit == "ms") && !(!time && bound.unit.empty()))
    complain(condition, time ? "the unit must be % or ms" : "the unit must be % or none");
  return judge_bound(v, name, bound, condition);
}

}  // namespace

void apply_fail_if(Comparison& comparison, const std::vector<EngineData>& engines,
                   const std::string& expression) {
  for (size_t p = 0; p < comparison.pairs.size(); ++p) {
    const auto& pair = comparison.pairs[p];
    const PairView view{engines[static_cast<size_t>(pair.baseline)],
                        engines[static_cast<size_t>(pair.candidate)], pair};
    for (const auto& alternative : split_words(normalised(expression), " or ")) {
      std::vector<FailCheck> checks;
      bool all = true;
      for (const auto& condition : split_words(alternative, " and ")) {
        if (condition.empty()) complain(expression, "a condition is empty");
        const Outcome outcome = judge_condition(view, condition);
        checks.push_back({condition, outcome.text, outcome.failed, static_cast<int>(p)});
        all = all && outcome.failed;
      }
      for (auto& check : checks) {
        // One of several `and` parts alone does not fail the run.
        if (!all && check.failed)
          check.failed = false, check.text += " (holds, but not all of: " + alternative + ")";
        comparison.checks.push_back(std::move(check));
      }
      comparison.failed = comparison.failed || all;
    }
  }
}

void check_fail_if(const std::string& expression) {
  Comparison nothing;
  nothing.pairs.emplace_back();
  apply_fail_if(nothing, std::vector<EngineData>(2), expression);
}

}  // namespace lathe::explorer
