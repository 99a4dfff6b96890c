// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/printable.h"

namespace lathe::explorer {
namespace {

constexpr size_t kSlowest = 10;

// How it looks: colours or none, and how wide.
struct Painter {
  bool colour;
  size_t width;

  std::string bold(const std::string& text) const {
    return colour ? "\x1b[1m" + printable(text) + "\x1b[0m" : printable(text);
  }
  std::string severity(const std::string& text, const std::string& severity) const {
    if (!colour) return text;
    const char* code = severity == "high" ? "31" : severity == "medium" ? "33" : "36";
    return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
  }

  // Words of `text` in lines of at most `width` characters, the first after `first`, the others after `rest`.
  std::string wrapped(const std::string& first, const std::string& rest, const std::string& raw) const {
    const std::string text = printable(raw);
    std::string result, line = first;
    size_t start = 0;
    bool empty = true;
    while (start <= text.size()) {
      const size_t end = std::min(text.find(' ', start), text.size());
      std::string word = text.substr(start, end - start);
      start = end + 1;
      word = shorten(word, width - rest.size());
      if (!empty && text_width(line) + 1 + text_width(word) > width) {
        result += line + "\n";
        line = rest;
        empty = true;
      }
      line += (empty ? "" : " ") + word;
      empty = false;
    }
    return result + line + "\n";
  }

  // A command that can still be copied: broken between its words, with a backslash at the end of each line
  // but the last. Words in quotes stay whole.
  std::string command_lines(const std::string& command) const {
    std::string result, line = "     $", word;
    bool quoted = false;
    char before = ' ';
    for (const char c : printable(command) + " ") {
      quoted = quoted != (c == '\'' && before != '\\');
      before = c;
      if (c != ' ' || quoted) {
        word += c;
        continue;
      }
      if (text_width(line) + 1 + text_width(word) > width - 2) {
        result += line + " \\\n";
        line = "      ";
      }
      line += " " + std::exchange(word, "");
    }
    return result + line + "\n";
  }
};

std::string padded(const std::string& text, size_t width) {
  const std::string cut = shorten(printable(text), width);
  return cut + std::string(width - text_width(cut), ' ');
}

std::string percent_text(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

// "core 2900 to 3100 MHz, power 61 to 75 W; 12 readings of the CPU in 1.3 s. ..."
std::string hardware_line(const EngineData& engine) {
  std::string line;
  const auto range = [&](const char* name, std::optional<double> HardwareSample::*field, const char* unit) {
    std::optional<double> low, high;
    for (const auto& sample : engine.hardware_samples) {
      const auto value = sample.*field;
      if (!value) continue;
      low = std::min(low.value_or(*value), *value);
      high = std::max(high.value_or(*value), *value);
    }
    if (!low) return;
    line += (line.empty() ? "" : ", ") +
            (*low == *high ? fmt::format("{} {:.0f} {}", name, *low, unit)
                           : fmt::format("{} {:.0f} to {:.0f} {}", name, *low, *high, unit));
  };
  range("core", &HardwareSample::core_mhz, "MHz");
  range("memory", &HardwareSample::memory_mhz, "MHz");
  range("power", &HardwareSample::power_w, "W");
  range("temperature", &HardwareSample::temperature_c, "C");
  const auto throttled = std::count_if(engine.hardware_samples.begin(), engine.hardware_samples.end(),
                                       [](const HardwareSample& s) { return s.throttled.value_or(false); });
  if (throttled > 0) line += fmt::format("{}throttled in {} readings", line.empty() ? "" : ", ", throttled);
  return line.empty() ? engine.hardware_text : line + "; " + engine.hardware_text;
}

void add_head(std::string& text, const EngineData& engine, const Painter& paint) {
  const Statistics& s = engine.statistics;
  text += paint.bold(shorten(engine.name, paint.width)) + "\n";
  std::string what = fmt::format("{} {}", s.layer_count, s.layer_count == 1 ? "layer" : "layers");
  if (!engine.model_name.empty()) what += " of " + engine.model_name;
  for (const auto& [word, part] : {std::pair{" on ", engine.context.device},
                                   {", ", engine.context.threads},
                                   {", ", engine.context.shapes},
                                   {", ", engine.context.precision},
                                   {", ", engine.context.date},
                                   {", ", engine.context.version}}) {
    if (!part.empty()) what += word + part;
  }
  text += paint.wrapped("  ", "  ", what);
  if (!engine.measurement.usable)
    text += paint.severity(paint.wrapped("  CAREFUL  ", "           ", engine.measurement.text), "high");
  if (s.compute) {
    text += paint.wrapped(
        "  engine   ", "           ",
        fmt::format("{} median{}, min {}, p99 {}, max {}{}", ms_text(s.compute->median_ms),
                    s.compute->count > 0 ? fmt::format(" of {} queries", s.compute->count) : "",
                    three_digits(s.compute->min_ms),
                    three_digits(s.compute->p99_ms.value_or(s.compute->max_ms)),
                    three_digits(s.compute->max_ms),
                    s.throughput_qps ? fmt::format("; {} queries/s", three_digits(*s.throughput_qps)) : ""));
  }
  if (s.layer_sum_ms) {
    text += paint.wrapped(
        "  layers   ", "           ",
        fmt::format(
            "{}, the sum of averages{}", ms_text(*s.layer_sum_ms),
            s.layer_median_sum_ms ? fmt::format("; {}, of medians", ms_text(*s.layer_median_sum_ms)) : ""));
  }
  if (!s.gap_text.empty()) text += paint.wrapped("  gap      ", "           ", s.gap_text);
  if (!engine.hardware_samples.empty())
    text += paint.wrapped("  device   ", "           ", hardware_line(engine));
  if (s.flops || s.bytes) {
    text += paint.wrapped(
        "  work     ", "           ",
        fmt::format("{}, {} moved, {} of weights", si_text(s.flops.value_or(0), "FLOP"),
                    binary_text(s.bytes.value_or(0)), binary_text(static_cast<double>(s.weights_bytes))));
  }
  if (s.peak_memory_bytes > 0 && engine.memory.peak_layer) {
    text += paint.wrapped(
        "  memory   ", "           ",
        fmt::format("{} of activations at {}", binary_text(static_cast<double>(s.peak_memory_bytes)),
                    layer_label(engine.layers[static_cast<size_t>(*engine.memory.peak_layer)].name)));
  }
  if (engine.peaks.source != "none") {
    std::string peaks;
    for (const auto& [type, rate] : engine.peaks.flops_per_s)
      peaks += fmt::format("{}{} {}", peaks.empty() ? "" : ", ", type, si_text(rate, "FLOP/s"));
    if (engine.peaks.bytes_per_s)
      peaks +=
          fmt::format("{}memory {}", peaks.empty() ? "" : ", ", si_text(*engine.peaks.bytes_per_s, "B/s"));
    text += paint.wrapped("  roof     ", "           ",
                          fmt::format("{} ({}{})", peaks, engine.peaks.source,
                                      engine.peaks.unstable.empty() ? "" : ", not stable"));
  }
  if (engine.onnx) text += paint.wrapped("  model    ", "           ", engine.onnx->text);
  for (const auto& note : engine.notes)
    text += paint.wrapped(fmt::format("  {:<8} ", note.severity), "           ", note.text);
}

// Without times there is no slowest layer: the first ones, as they run.
void add_order(std::string& text, const EngineData& engine, const Painter& paint) {
  constexpr size_t kType = 16;
  text += "\n" + paint.bold("Layers, in order") + "\n";
  for (size_t i = 0; i < std::min(engine.layers.size(), kSlowest); ++i) {
    const Layer& layer = engine.layers[i];
    std::string line = fmt::format("{:>5}  ", i);
    if (!engine.names_only)
      line += fmt::format("{} {:<6}", padded(layer.type, kType),
                          layer.precision.empty() ? "-" : shorten(printable(layer.precision), 5));
    text += line + layer_label(printable(layer.name), paint.width - text_width(line)) + "\n";
  }
  if (engine.layers.size() > kSlowest)
    text += fmt::format("       and {} more\n", engine.layers.size() - kSlowest);
}

void add_slowest(std::string& text, const EngineData& engine, const Painter& paint) {
  std::vector<const Layer*> layers;
  for (const auto& layer : engine.layers) {
    if (layer.time) layers.push_back(&layer);
  }
  if (layers.empty()) return add_order(text, engine, paint);
  std::stable_sort(layers.begin(), layers.end(),
                   [](const Layer* a, const Layer* b) { return a->time->average_ms > b->time->average_ms; });
  const double total = engine.statistics.layer_sum_ms.value_or(0);
  text +=
      "\n" + paint.bold(layers.size() > kSlowest ? "The ten slowest layers" : "Layers, slowest first") + "\n";
  text += fmt::format("{:>9}{:>7}{:>7}  {:<8}{:<6}{}\n", "ms", "%", "%roof", "bound", "prec.", "layer");
  for (size_t i = 0; i < std::min(layers.size(), kSlowest); ++i) {
    const Layer& layer = *layers[i];
    text += fmt::format("{:>9}{:>7}{:>7}  {:<8}{:<6}{}\n", three_digits(layer.time->average_ms),
                        three_digits(total > 0 ? 100 * layer.time->average_ms / total : 0),
                        percent_text(layer.roofline.percent_of_roof, 0),
                        layer.roofline.verdict == "unknown" ? "-" : printable(layer.roofline.verdict),
                        layer.precision.empty() ? "-" : shorten(printable(layer.precision), 5),
                        layer_label(printable(layer.name), paint.width - 39));
  }
}

void add_bars(std::string& text, const std::vector<Group>& groups, const std::string& title,
              const Painter& paint) {
  constexpr size_t kName = 22, kBar = 24, kRows = 12;
  if (groups.empty() || (groups.size() == 1 && groups.front().key.empty())) return;  // names alone
  const bool timed = groups.front().time_ms.has_value();
  double most = 0;
  for (const auto& group : groups)
    most = std::max(most, timed ? group.time_ms.value_or(0) : static_cast<double>(group.layers.size()));
  text += "\n" + paint.bold(title) + "\n";
  for (size_t i = 0; i < std::min(groups.size(), kRows); ++i) {
    const auto& group = groups[i];
    const double value = timed ? group.time_ms.value_or(0) : static_cast<double>(group.layers.size());
    const auto length = static_cast<size_t>(most > 0 ? std::lround(value / most * kBar) : 0);
    std::string figures =
        timed ? fmt::format("{:>9} ms {:>6} %", three_digits(value), three_digits(group.percent.value_or(0)))
              : "";
    std::string line =
        fmt::format("  {} {:>5}{} {}", padded(group.key.empty() ? "(not known)" : group.key, kName),
                    group.layers.size(), figures, std::string(length, '#'));
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  if (groups.size() > kRows) text += fmt::format("  and {} more\n", groups.size() - kRows);
}

void add_findings(std::string& text, const EngineData& engine, const Painter& paint) {
  if (engine.findings.empty()) return;
  text += "\n" + paint.bold("Findings") + "\n";
  int number = 0;
  for (const auto& finding : engine.findings) {
    std::string title = fmt::format("[{}] {}", finding.severity, finding.title);
    if (finding.gain_ms && *finding.gain_ms > 0)
      title += fmt::format(", about {} to win", ms_text(*finding.gain_ms));
    const std::string head = fmt::format("{:>3}. ", ++number);
    text += paint.severity(paint.wrapped(head, "     ", title), finding.severity);
    for (const auto& line : finding.evidence) text += paint.wrapped("     - ", "       ", line);
    if (!finding.action.empty()) text += paint.wrapped("     ", "     ", finding.action);
    if (!finding.command.empty()) text += paint.command_lines(finding.command);
  }
}

// Digits after the point, as many as the shortest text of the number has: sums in one column keep theirs.
int decimals_of(double value) {
  const std::string text = fmt::format("{}", value);
  const size_t point = text.find('.');
  if (point == std::string::npos || text.find('e') != std::string::npos) return 0;
  return static_cast<int>(text.size() - point - 1);
}

void add_pair(std::string& text, const Analysis& analysis, const EnginePair& pair, const Painter& paint) {
  const auto& a = analysis.engines[static_cast<size_t>(pair.baseline)];
  const auto& b = analysis.engines[static_cast<size_t>(pair.candidate)];
  text += paint.bold(shorten(fmt::format("{} against {}", b.name, a.name), paint.width)) + "\n";
  text += paint.wrapped("  ", "  ", change_text(pair));
  for (const auto& note : pair.notes)
    text += paint.wrapped(fmt::format("  {:<8} ", note.severity), "           ", note.text);
  if (pair.delta_ms) {
    double most = 0;
    int decimals = std::max(decimals_of(*pair.baseline_sum_ms), decimals_of(*pair.candidate_sum_ms));
    for (const auto& item : pair.waterfall) {
      most = std::max(most, std::fabs(item.delta_ms));
      decimals = std::max(decimals, decimals_of(item.delta_ms));
    }
    text += fmt::format("\n{:>11.{}f}  {}\n", *pair.baseline_sum_ms, decimals, "baseline, ms");
    for (const auto& item : pair.waterfall) {
      const auto bar = static_cast<size_t>(most > 0 ? std::lround(std::fabs(item.delta_ms) / most * 16) : 0);
      text += fmt::format("{:>+11.{}f}  {:<17}{}\n", item.delta_ms, decimals,
                          std::string(bar, item.delta_ms < 0 ? '-' : '+'),
                          layer_label(printable(item.label), paint.width - 30));
    }
    text += fmt::format("{:>11.{}f}  {}\n", *pair.candidate_sum_ms, decimals, "candidate, ms");
  }
  const auto changes = [&](const char* title, const std::vector<FusionChange>& list) {
    if (list.empty()) return;
    text += fmt::format("\n{}: {}\n", title, list.size());
    for (size_t i = 0; i < std::min<size_t>(list.size(), 10); ++i)
      text += paint.wrapped("  - ", "    ", list[i].text);
    if (list.size() > 10) text += fmt::format("    and {} more\n", list.size() - 10);
  };
  changes("Fusions lost", pair.fusions_lost);
  changes("New fusions", pair.fusions_new);
  if (!pair.precision_changes.empty())
    text += fmt::format("\nPrecision changed in {} of {} rows\n", pair.precision_changes.size(),
                        pair.rows.size());
}

}  // namespace

std::string summary_text(const Analysis& analysis, bool colour, size_t width) {
  const Painter paint{colour, std::max<size_t>(width, 60)};
  std::string text;
  if (analysis.comparison) {
    for (const auto& pair : analysis.comparison->pairs) {
      add_pair(text, analysis, pair, paint);
      text += "\n";
    }
    for (const auto& check : analysis.comparison->checks) {
      text += paint.severity(paint.wrapped(check.failed ? "FAILED " : "passed ", "       ",
                                           check.expression + ": " + check.text),
                             check.failed ? "high" : "low");
    }
    if (!analysis.comparison->checks.empty()) text += "\n";
  }
  for (size_t i = 0; i < analysis.engines.size(); ++i) {
    const auto& engine = analysis.engines[i];
    if (i > 0) text += "\n";
    add_head(text, engine, paint);
    add_slowest(text, engine, paint);
    add_bars(text, engine.groups.by_type, "By type: layers, time", paint);
    add_bars(text, engine.groups.by_precision, "By precision: layers, time", paint);
    add_findings(text, engine, paint);
  }
  return colour ? text : printable(text);  // with colours, names were made printable where they were painted
}

}  // namespace lathe::explorer
