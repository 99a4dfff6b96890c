// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/json_at.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace lathe::explorer {
namespace {

std::string found_text(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  std::string text = dump_json(value, -1);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return fmt::format("{} ({})",
                     value.is_string()    ? "a string"
                     : value.is_boolean() ? "a boolean"
                                          : "a number",
                     text);
}

// Control characters inside string literals become \u00XX; everything else stays.
std::string escape_control_characters(const std::string& text) {
  std::string result;
  result.reserve(text.size());
  bool in_string = false, escaped = false;
  for (const char c : text) {
    if (in_string && static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      escaped = false;
      continue;
    }
    result += c;
    if (!in_string) {
      in_string = c == '"';
    } else if (escaped) {
      escaped = false;
    } else if (c == '\\') {
      escaped = true;
    } else if (c == '"') {
      in_string = false;
    }
  }
  return result;
}

}  // namespace

void JsonAt::fail(std::string_view expected) const {
  throw_input_error(fmt::format("{}: expected {}, found {}", place_, expected, found_text(*value_)));
}

JsonAt JsonAt::at(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  const auto found = value_->find(std::string(key));
  if (found == value_->end()) throw_input_error(fmt::format("{}: the key \"{}\" is missing", place_, key));
  return {*found, fmt::format("{}{}{}", place_, place_.ends_with(": ") ? "" : ".", key)};
}

std::optional<JsonAt> JsonAt::find(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  const auto found = value_->find(std::string(key));
  if (found == value_->end() || found->is_null()) return {};
  return JsonAt(*found, fmt::format("{}{}{}", place_, place_.ends_with(": ") ? "" : ".", key));
}

size_t JsonAt::size() const {
  if (!value_->is_array()) fail("a list");
  return value_->size();
}

JsonAt JsonAt::item(size_t index) const {
  return {value_->at(index), fmt::format("{}[{}]", place_, index)};
}

std::string JsonAt::text() const {
  if (!value_->is_string()) fail("a string");
  return value_->get<std::string>();
}

double JsonAt::number() const {
  if (!value_->is_number()) fail("a number");
  return value_->get<double>();
}

int64_t JsonAt::integer() const {
  // Digits in a string and booleans are integers in some dialects; 3.0 is 3.
  if (value_->is_boolean()) return value_->get<bool>() ? 1 : 0;
  if (value_->is_string()) {
    const auto text = value_->get<std::string>();
    const bool digits = !text.empty() && text.size() < 18 &&
                        std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits) return std::stoll(text);
    fail("an integer");
  }
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX) fail("an integer below 2^63");
  if (value_->is_number_integer()) return value_->get<int64_t>();
  const double real = value_->is_number() ? value_->get<double>() : 0.5;
  if (real != std::floor(real) || std::fabs(real) > 9e15) fail("an integer");
  return static_cast<int64_t>(real);
}

std::vector<int64_t> JsonAt::integers() const {
  if (!value_->is_array()) fail("a list of integers");
  std::vector<int64_t> values;
  values.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    if (!(*value_)[i].is_number()) fail("a list of integers");
    values.push_back(item(i).integer());
  }
  return values;
}

std::string text_or(const JsonAt& at, std::string_view key, std::string otherwise) {
  const auto found = at.find(key);
  return found ? found->text() : std::move(otherwise);
}

Json parse_foreign_json(const std::string& text, const std::string& file, bool* repaired) {
  *repaired = false;
  try {
    return parse_json(text, file);
  } catch (const Error&) {
    const std::string escaped = escape_control_characters(text);
    if (escaped == text) throw;
    try {
      Json json = parse_json(escaped, file);
      *repaired = true;
      return json;
    } catch (const Error&) {
    }
    throw;
  }
}

}  // namespace lathe::explorer
