// SPDX-License-Identifier: Apache-2.0
//
// trtexec's logs: sections "=== Title ===" of "key: value" lines, with or without time stamps, values whole.
// The two metadata files that were made from logs hold the same sections as JSON objects and give the same
// result.
#include <fmt/format.h>

#include <charconv>

#include "base/json.h"
#include "explorer/core/readers.h"

namespace lathe::explorer {
namespace {

// The text after "[11/21/2026-13:33:28] [I] "; the severity letter goes to `severity` (0: none).
std::string_view strip_stamp(std::string_view line, char& severity) {
  severity = 0;
  for (int i = 0; i < 3 && line.starts_with('['); ++i) {
    const size_t end = line.find(']');
    if (end == std::string_view::npos) break;
    const std::string_view inside = line.substr(1, end - 1);
    const bool stamp =
        inside.find('/') != std::string_view::npos && inside.find(':') != std::string_view::npos;
    const bool letter = inside.size() == 1;
    if (!stamp && !letter && inside != "TRT") break;
    if (letter) severity = inside[0];
    line.remove_prefix(end + 1);
    if (line.starts_with(' ')) line.remove_prefix(1);
  }
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  return line;
}

// "[11/24/2026-21:03:28] ..." -> "2026-11-24 21:03"; "" for a line without a stamp.
std::string date_of(std::string_view line) {
  constexpr std::string_view kPattern = "[dd/dd/dddd-dd:dd";
  if (line.size() < kPattern.size()) return "";
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = line[i] >= '0' && line[i] <= '9';
    if (kPattern[i] == 'd' ? !digit : line[i] != kPattern[i]) return "";
  }
  return fmt::format("{}-{}-{} {}", line.substr(7, 4), line.substr(1, 2), line.substr(4, 2),
                     line.substr(12, 5));
}

std::string_view title_of(std::string_view line) {
  if (!line.starts_with("=== ") || !line.ends_with(" ===") || line.size() < 9) return {};
  return line.substr(4, line.size() - 8);
}

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return dump_json(value, -1);
}

// "performance_summary" -> "Performance summary".
std::string_view metadata_title(std::string_view key) {
  if (key == "performance_summary") return "Performance summary";
  if (key == "inference_options") return "Inference Options";
  if (key == "device_information") return "Device Information";
  if (key == "model_options") return "Model Options";
  if (key == "build_options") return "Build Options";
  return {};
}

LogFile read_metadata(const InputFile& input) {
  LogFile log;
  for (const auto& [key, section] : input.json->items()) {
    const auto title = metadata_title(key);
    if (title.empty()) continue;
    const JsonAt at(section, fmt::format("{}: {}", input.name, key));
    if (!section.is_object()) at.fail("an object");
    Texts texts;
    for (const auto& [name, value] : section.items()) texts.emplace_back(name, value_text(value));
    log.sections.emplace_back(title, std::move(texts));
  }
  return log;
}

}  // namespace

const Texts* LogFile::find(std::string_view title) const {
  for (const auto& [name, texts] : sections) {
    if (name == title) return &texts;
  }
  return nullptr;
}

LogFile read_log(const InputFile& input) {
  if (input.kind == FileKind::Metadata) return read_metadata(input);
  LogFile log;
  Texts* current = nullptr;
  std::string_view rest = input.text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    char severity = 0;
    if (log.date.empty()) log.date = date_of(rest.substr(0, end));
    const std::string_view line = strip_stamp(rest.substr(0, end), severity);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (const auto title = title_of(line); !title.empty()) {
      current = &log.sections.emplace_back(title, Texts{}).second;
      continue;
    }
    if (severity != 0 && severity != 'I') continue;  // warnings between the lines of a section
    const size_t colon = line.find(':');
    if (current == nullptr || colon == std::string_view::npos || colon == 0) {
      if (line.empty()) current = nullptr;
      continue;
    }
    std::string_view value = line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    current->emplace_back(line.substr(0, colon), value);
  }
  return log;
}

std::optional<double> leading_number(const std::string& text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

namespace {

// [min, max, mean, median, p99] or [.., p90, p95, p99]: what was made of the line for a metadata file.
std::optional<Series> read_series_list(const std::string& text) {
  const Json list = Json::parse(text, nullptr, false);
  if (!list.is_array() || (list.size() != 5 && list.size() != 7)) return {};
  std::vector<double> v;
  for (const auto& item : list) {
    if (!item.is_number()) return {};
    v.push_back(item.get<double>());
  }
  Series series{0, v[0], v[1], v[2], v[3], {}, {}, v.back(), {}};
  if (v.size() == 7) {
    series.p90_ms = v[4];
    series.p95_ms = v[5];
  }
  return series;
}

}  // namespace

std::optional<Series> read_series_text(const std::string& text) {
  if (text.starts_with('[')) return read_series_list(text);
  const auto number_after = [&](std::string_view name) -> std::optional<double> {
    const size_t at = text.find(fmt::format("{} = ", name));
    return at == std::string::npos ? std::nullopt : leading_number(text.substr(at + name.size() + 3));
  };
  const auto min = number_after("min"), max = number_after("max"), mean = number_after("mean"),
             median = number_after("median");
  if (!min || !max || !mean || !median) return {};
  return Series{0,
                *min,
                *max,
                *mean,
                *median,
                number_after("percentile(90%)"),
                number_after("percentile(95%)"),
                number_after("percentile(99%)"),
                {}};
}

}  // namespace lathe::explorer
