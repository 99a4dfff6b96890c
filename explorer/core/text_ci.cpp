// SPDX-License-Identifier: Apache-2.0
//
// Markdown and JUnit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

std::string cell(std::string text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '`' || c == '<' || c == '*' || c == '_') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

std::string xml(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
          result += c;  // XML has no other control characters
    }
  }
  return result;
}

std::string ms_text(const std::optional<double>& ms) {
  return ms ? three_digits(*ms) : "-";
}

void add_engine(std::string& text, const EngineData& engine) {
  const auto& s = engine.statistics;
  text += fmt::format("### {}\n\n| | |\n|---|---|\n", cell(engine.name));
  const auto row = [&](const char* key, const std::string& value) {
    text += fmt::format("| {} | {} |\n", key, cell(value));
  };
  if (!engine.measurement.usable) row("careful", engine.measurement.text);
  row("layers", std::to_string(s.layer_count));
  if (s.compute)
    row("engine", fmt::format("{} median, p99 {}", ms_text(s.compute->median_ms),
                              ms_text(s.compute->p99_ms.value_or(s.compute->max_ms))));
  if (s.layer_sum_ms) row("layer sum", ms_text(*s.layer_sum_ms));
  if (!s.gap_text.empty()) row("gap", s.gap_text);
  if (s.flops)
    row("work", fmt::format("{}, {} moved", si_text(*s.flops, "FLOP"), binary_text(s.bytes.value_or(0))));
  row("peak activations", binary_text(static_cast<double>(s.peak_memory_bytes)));
  if (engine.onnx) row("model", engine.onnx->text);
  text += "\n| type | layers | ms | % |\n|---|---:|---:|---:|\n";
  for (const auto& group : engine.groups.by_type) {
    text += fmt::format("| {} | {} | {} | {} |\n", cell(group.key), group.layers.size(),
                        ms_text(group.time_ms), group.percent ? fmt::format("{:.1f}", *group.percent) : "-");
  }
  if (!engine.findings.empty()) text += "\n";
  for (const auto& finding : engine.findings) {
    text += fmt::format("1. **{}** ({}{}): {}\n", cell(finding.title), finding.severity,
                        finding.gain_ms && *finding.gain_ms > 0 ? ", about " + ms_text(*finding.gain_ms) : "",
                        cell(finding.action));
  }
  text += "\n";
}

void add_pair(std::string& text, const Analysis& analysis, const EnginePair& pair) {
  const auto& a = analysis.engines[static_cast<size_t>(pair.baseline)];
  const auto& b = analysis.engines[static_cast<size_t>(pair.candidate)];
  text += fmt::format("## {} against {}\n\n{}\n\n", cell(b.name), cell(a.name), cell(change_text(pair)));
  if (!pair.waterfall.empty()) {
    text += "| change | ms |\n|---|---:|\n";
    text += fmt::format("| *{}* | {} |\n", cell(a.name), *pair.baseline_sum_ms);
    for (const auto& item : pair.waterfall)
      text += fmt::format("| {} | {:+} |\n", cell(layer_label(item.label, 80)), item.delta_ms);
    text += fmt::format("| *{}* | {} |\n\n", cell(b.name), *pair.candidate_sum_ms);
  }
  for (const auto& change : pair.fusions_lost) text += "- fusion lost: " + cell(change.text) + "\n";
  for (const auto& change : pair.fusions_new) text += "- new fusion: " + cell(change.text) + "\n";
  if (!pair.precision_changes.empty())
    text += fmt::format("- precision changed in {} of {} rows\n", pair.precision_changes.size(),
                        pair.rows.size());
  text += "\n";
}

}  // namespace

std::string summary_markdown(const Analysis& analysis) {
  std::string text;
  if (analysis.comparison) {
    const auto& checks = analysis.comparison->checks;
    if (!checks.empty()) {
      text += fmt::format("**{}**\n\n| check | result | |\n|---|---|---|\n",
                          analysis.comparison->failed ? "FAILED" : "passed");
      for (const auto& check : checks)
        text += fmt::format("| {} | {} | {} |\n", cell(check.expression),
                            check.failed ? "**failed**" : "passed", cell(check.text));
      text += "\n";
    }
    for (const auto& pair : analysis.comparison->pairs) add_pair(text, analysis, pair);
  }
  for (const auto& engine : analysis.engines) add_engine(text, engine);
  return text;
}

std::string summary_junit(const Analysis& analysis) {
  std::string cases;
  size_t count = 0, failures = 0;
  const auto add = [&](const std::string& suite, const std::string& name, const std::string& detail,
                       bool failed) {
    ++count;
    failures += failed;
    cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\">", xml(suite), xml(name));
    if (failed) {
      cases += fmt::format("<failure message=\"{}\"/>", xml(detail));
    } else {
      cases += fmt::format("<system-out>{}</system-out>", xml(detail));
    }
    cases += "</testcase>\n";
  };
  if (analysis.comparison) {
    for (const auto& check : analysis.comparison->checks) {
      const auto& pair = analysis.comparison->pairs[static_cast<size_t>(check.pair)];
      const auto name_of = [&](int engine) { return analysis.engines[static_cast<size_t>(engine)].name; };
      add(fmt::format("{} against {}", name_of(pair.candidate), name_of(pair.baseline)), check.expression,
          check.text, check.failed);
    }
    if (analysis.comparison->checks.empty()) {
      for (const auto& pair : analysis.comparison->pairs)
        add("comparison", analysis.engines[static_cast<size_t>(pair.candidate)].name, change_text(pair),
            false);
    }
  } else {
    for (const auto& engine : analysis.engines) {
      add("engine", engine.name,
          fmt::format("{} layers, layer sum {} ms", engine.statistics.layer_count,
                      ms_text(engine.statistics.layer_sum_ms)),
          false);
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"lathe explore\" "
      "tests=\"{}\" failures=\"{}\">\n{}  </testsuite>\n</testsuites>\n",
      count, failures, cases);
}

}  // namespace lathe::explorer
