// SPDX-License-Identifier: Apache-2.0
#include "arguments/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "arguments/arguments.h"
#include "base/error.h"

namespace lathe::cli {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

const Extents* find_exact(const NamedShapes& shapes, const std::string& name) {
  for (const auto& [entry, extents] : shapes) {
    if (entry == name) return &extents;
  }
  return nullptr;
}

// Bytes of one unit; 0 when unknown. "MiB", "MB" and "M" all mean 2^20: people write them as one.
double unit_bytes(const std::string& unit) {
  const std::string name = lower(unit);
  if (name == "b") return 1;
  constexpr std::pair<char, double> kUnits[] = {{'k', 1024.0}, {'m', 1048576.0}, {'g', 1073741824.0}};
  for (const auto& [letter, bytes] : kUnits) {
    if (name == std::string(1, letter) || name == std::string(1, letter) + "b" ||
        name == std::string(1, letter) + "ib") {
      return bytes;
    }
  }
  return 0;
}

}  // namespace

std::pair<std::string, std::string> parse_named_value(const std::string& item) {
  const auto colon = item.rfind(':');
  if (colon == std::string::npos) return {item, item};
  std::string name = item.substr(0, colon);
  const auto quotes = std::count(name.begin(), name.end(), '\'');
  if (quotes > 0) {
    if (quotes != 2) {
      throw_input_error(
          fmt::format("Found invalid number of 's when parsing {}. Expected: 2, received: {}", item, quotes));
    }
    name.erase(std::remove(name.begin(), name.end(), '\''), name.end());
  }
  return {name, item.substr(colon + 1)};
}

Extents parse_dims(const std::string& text) {
  Extents extents;
  if (text.empty() || text == "scalar") return extents;
  for (const auto& number : split_list(text, 'x')) extents.push_back(std::stoi(number));
  return extents;
}

std::string dims_text(const Extents& extents) {
  std::string text;
  for (const int64_t extent : extents) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

NamedShapes parse_shapes(std::string_view option, const std::string& text) {
  NamedShapes shapes;
  for (const auto& item : split_list(text)) {
    auto [name, dims] = parse_named_value(item);
    Extents extents;
    try {
      extents = parse_dims(dims);
    } catch (const std::logic_error&) {  // stoi
      throw_input_error(
          fmt::format("stoi conversion failure: failed to parse {}. Please double check your input string. "
                      "({}={}: expected "
                      "name:NxCxHxW as in input:1x3x224x224)",
                      option.substr(2), option, item));
    }
    if (std::count(name.begin(), name.end(), '*') > 1) {
      throw_input_error(fmt::format("{}={}: at most one * is allowed in a name", option, item));
    }
    std::erase_if(shapes, [&](const auto& entry) { return entry.first == name; });
    shapes.emplace_back(std::move(name), std::move(extents));
  }
  return shapes;
}

std::vector<NamedRange> complete_ranges(const NamedShapes& min, const NamedShapes& opt,
                                        const NamedShapes& max, std::vector<std::string>& notes) {
  std::vector<std::string> names;
  for (const auto* shapes : {&opt, &min, &max}) {
    for (const auto& [name, extents] : *shapes) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::vector<NamedRange> ranges;
  for (const auto& name : names) {
    const Extents *low = find_exact(min, name), *best = find_exact(opt, name), *high = find_exact(max, name);
    const auto fill = [&](const Extents*& target, const char* target_name, const Extents* source,
                          const char* source_name) {
      if (target != nullptr || source == nullptr) return;
      target = source;
      notes.push_back(
          fmt::format("{} is being broadcasted to {} for tensor {}", source_name, target_name, name));
    };
    // min and max together say opt = max; opt fills what is missing beside it; one alone fills both.
    if (best == nullptr && high != nullptr) fill(best, "optShapes", high, "maxShapes");
    fill(best, "optShapes", low, "minShapes");
    fill(low, "minShapes", best, "optShapes");
    fill(high, "maxShapes", best, "optShapes");
    ranges.push_back({name, {*low, *best, *high}});
  }
  return ranges;
}

double parse_size(const std::string& text, double default_unit) {
  const auto unit_begin = static_cast<size_t>(
      std::find_if(text.rbegin(), text.rend(), [](unsigned char c) { return std::isalpha(c) == 0; }).base() -
      text.begin());
  const std::string unit = text.substr(unit_begin);
  const float number = parse_float("size", text.substr(0, unit_begin));
  if (unit.empty()) return static_cast<double>(number) * default_unit;
  const double bytes = unit_bytes(unit);
  if (bytes == 0) {
    throw_input_error(fmt::format(
        "Error parsing \"{}\": invalid unit specifier '{}'. Valid base-2 unit suffixes include: B "
        "(Bytes), G (Gibibytes), K (Kibibytes), M (Mebibytes).",
        text, unit));
  }
  return static_cast<double>(number) * bytes;
}

std::map<std::string, double> parse_memory_pools(const std::string& text) {
  constexpr double kMebibyte = 1048576;
  constexpr std::string_view kPools[] = {"workspace", "dlaSRAM", "dlaLocalDRAM", "dlaGlobalDRAM",
                                         "tacticSharedMem"};
  std::map<std::string, double> pools;
  try {
    for (const auto& item : split_list(text)) {
      const auto [pool, size] = parse_named_value(item);
      const double bytes = parse_size(size, kMebibyte);
      if (bytes < 0) throw_input_error(fmt::format("Negative memory pool size: {}", size));
      if (std::find(std::begin(kPools), std::end(kPools), pool) == std::end(kPools)) {
        throw_input_error(fmt::format("Unknown memory pool: {}", pool));
      }
      pools[pool] = bytes;
    }
  } catch (const NumberError& error) {
    throw_input_error(fmt::format(
        "{} conversion failure: failed to parse --memPoolSize. Please double check your input string. ({})",
        error.function(), error.what()));
  } catch (const Error& error) {
    throw_input_error(
        std::string(error.what()) +
        " conversion failure: failed to parse --memPoolSize. Please double check your input string.");
  }
  return pools;
}

std::optional<DType> dtype_of_token(std::string_view token) {
  for (const DTypeInfo& info : all_dtypes())
    if (info.trt_arg == token) return info.dtype;
  return std::nullopt;
}

std::vector<LayerTypeNames> parse_layer_types(std::string_view option, const std::string& text) {
  std::vector<LayerTypeNames> result;
  for (const std::string& item : split_list(text)) {
    const auto [layer, types] = parse_named_value(item);
    if (item.find(':') == std::string::npos || layer.empty() || types.empty())
      throw_input_error(fmt::format("{}: '{}' is no layer and type, as in conv1:fp16", option, item));
    LayerTypeNames entry{layer, {}};
    for (const std::string& name : split_list(types, '+')) {
      const auto type = dtype_of_token(name);
      if (!type) throw_input_error(fmt::format("{}: Invalid data type: {}", option, name));
      entry.types.push_back(*type);
    }
    result.push_back(std::move(entry));
  }
  return result;
}

std::vector<IoFormat> parse_io_formats(std::string_view option, const std::string& text) {
  const std::vector<std::string> types = {"fp32", "fp16",  "bf16", "int32", "int64",
                                          "int8", "uint8", "bool", "fp8",   "int4"};
  const std::vector<std::string> formats = {"chw",      "chw2",  "hwc8",   "chw4", "chw16",
                                            "chw32",    "dhwc8", "cdhw32", "hwc",  "dla_linear",
                                            "dla_hwc4", "hwc16", "dhwc"};
  const auto known = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<IoFormat> result;
  for (const auto& item : split_list(text)) {
    IoFormat format;
    const auto colon = item.find(':');
    if (colon != std::string::npos) {
      format.type = item.substr(0, colon);
      if (!known(types, format.type)) {
        throw_input_error(
            fmt::format("{}: Invalid data type: {} (known: {})", option, format.type, fmt::join(types, " ")));
      }
    }
    format.formats = split_list(colon == std::string::npos ? item : item.substr(colon + 1), '+');
    for (const auto& name : format.formats) {
      if (!known(formats, name)) {
        throw_input_error(
            fmt::format("{}: Invalid format: {} (known: {})", option, name, fmt::join(formats, " ")));
      }
    }
    if (format.formats.empty())
      throw_input_error(fmt::format("{}: {} names no format, as in fp32:chw", option, item));
    result.push_back(std::move(format));
  }
  return result;
}

std::vector<std::pair<std::string, bool>> parse_switches(std::string_view what, const std::string& text,
                                                         const std::vector<std::string>& known,
                                                         bool ignore_case) {
  std::vector<std::pair<std::string, bool>> switches;
  for (const auto& item : split_list(text)) {
    if (item.empty() || (item[0] != '+' && item[0] != '-')) {
      throw_input_error(fmt::format("{} '{}' must be prefixed by + (on) or - (off)", what, item));
    }
    const bool on = item[0] == '+';
    const auto found = std::find_if(known.begin(), known.end(), [&](const std::string& name) {
      return ignore_case ? lower(name) == lower(item.substr(1)) : name == item.substr(1);
    });
    if (found == known.end()) {
      throw_input_error(
          fmt::format("Unknown {}: {} (known: {})", what, item.substr(1), fmt::join(known, " ")));
    }
    for (const auto& [name, other] : switches) {
      if (name == *found && other != on) throw_input_error(fmt::format("Cannot enable and disable {}", name));
    }
    switches.emplace_back(*found, on);
  }
  return switches;
}

}  // namespace lathe::cli
