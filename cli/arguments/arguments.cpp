// SPDX-License-Identifier: Apache-2.0
#include "arguments/arguments.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace lathe::cli {

Arguments::Arguments(const std::vector<std::string>& words) {
  for (const auto& word : words) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) {
      arguments_.push_back({word, "", false});
    } else {
      arguments_.push_back({word.substr(0, equals), word.substr(equals + 1), true});
    }
  }
}

std::optional<std::string> Arguments::take(std::string_view name) {
  for (auto& argument : arguments_) {
    if (argument.taken || argument.name != name) continue;
    argument.taken = true;
    return argument.value;
  }
  return std::nullopt;
}

std::vector<std::string> Arguments::take_all(std::string_view name) {
  std::vector<std::string> values;
  while (auto value = take(name)) values.push_back(std::move(*value));
  return values;
}

bool Arguments::has(std::string_view name) const {
  for (const auto& argument : arguments_) {
    if (argument.name == name) return true;
  }
  return false;
}

int parse_int(std::string_view option, const std::string& text) {
  try {
    return std::stoi(text);
  } catch (const std::out_of_range&) {
    throw NumberError("stoi", option, fmt::format("{}={} is too large for a 32-bit number", option, text));
  } catch (const std::invalid_argument&) {
    throw NumberError("stoi", option,
                      fmt::format("{}={} needs a whole number, as in {}=10", option, text, option));
  }
}

float parse_float(std::string_view option, const std::string& text) {
  float value = 0;
  try {
    value = std::stof(text);
  } catch (const std::out_of_range&) {
    throw NumberError("stof", option, fmt::format("{}={} is out of range", option, text));
  } catch (const std::invalid_argument&) {
    throw NumberError("stof", option,
                      fmt::format("{}={} needs a number, as in {}=0.5", option, text, option));
  }
  if (!std::isfinite(value))
    throw NumberError("stof", option, fmt::format("{}={} needs a finite number", option, text));
  return value;
}

std::vector<std::string> split_list(const std::string& text, char separator) {
  std::vector<std::string> items;
  if (text.empty()) return items;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1) {
    items.push_back(text.substr(begin, end - begin));
  }
  items.push_back(text.substr(begin));
  return items;
}

}  // namespace lathe::cli
