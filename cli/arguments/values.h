// SPDX-License-Identifier: Apache-2.0
//
// The grammars of option values: "name:value" items, shapes, sizes, formats, on/off lists.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/name_pattern.h"
#include "ir/shape.h"
#include "plan/optimization_profile.h"

namespace lathe::cli {

// "name:value", split at the last colon; the name may stand in single quotes. Without a colon the token is
// both.
std::pair<std::string, std::string> parse_named_value(const std::string& item);

// "a:1x3x4,b:scalar". Numbers of a shape tensor are its elements. In the order given; a repeated name: the
// last counts.
using NamedShapes = std::vector<std::pair<std::string, Extents>>;
NamedShapes parse_shapes(std::string_view option, const std::string& text);
// "1x3x4"; "scalar" and "" are rank 0.
Extents parse_dims(const std::string& text);
std::string dims_text(const Extents& extents);  // "1x3x4", "" for rank 0

// The entry for a name: the exact one, else the first whose '*' match, else null.
template <class T>
const T* find_named(const std::vector<std::pair<std::string, T>>& entries, std::string_view name);

template <class T>
std::vector<std::string> names_of(const std::vector<std::pair<std::string, T>>& entries) {
  std::vector<std::string> names;
  for (const auto& [name, value] : entries) names.push_back(name);
  return names;
}

// min, opt and max of an input; what is missing is filled from the others.
struct NamedRange {
  std::string name;
  ShapeRange range;
  bool operator==(const NamedRange&) const = default;
};
// Appends one line for each filled-in tensor ("optShapes is being broadcasted to minShapes for tensor X").
std::vector<NamedRange> complete_ranges(const NamedShapes& min, const NamedShapes& opt,
                                        const NamedShapes& max, std::vector<std::string>& notes);

// Bytes of "64", "0.25G", "100MiB"; without a unit the number counts `default_unit` bytes.
double parse_size(const std::string& text, double default_unit);
// "workspace:1024,dlaSRAM:0.5" to bytes by pool.
std::map<std::string, double> parse_memory_pools(const std::string& text);

// "fp32:chw+hwc8,..." or (11.x) "chw,...": one entry per binding.
struct IoFormat {
  std::string type;                  // "" when not given
  std::vector<std::string> formats;  // at least one
  bool operator==(const IoFormat&) const = default;
};
std::vector<IoFormat> parse_io_formats(std::string_view option, const std::string& text);

inline constexpr double kMebibyte = 1048576;

// The type that trtexec calls so: "fp32".
std::optional<DType> dtype_of_token(std::string_view token);

// "conv:fp16,*:fp32" or, of results, "split:fp16+fp32": layers and types.
struct LayerTypeNames {
  std::string layer;
  std::vector<DType> types;  // at least one
};
std::vector<LayerTypeNames> parse_layer_types(std::string_view option, const std::string& text);

// "+CUBLAS,-CUDNN": names and whether they are on. `what` is the word of the messages ("tactic source").
std::vector<std::pair<std::string, bool>> parse_switches(std::string_view what, const std::string& text,
                                                         const std::vector<std::string>& known,
                                                         bool ignore_case);

template <class T>
const T* find_named(const std::vector<std::pair<std::string, T>>& entries, std::string_view name) {
  for (const auto& [entry, value] : entries) {
    if (entry == name) return &value;
  }
  for (const auto& [entry, value] : entries) {
    if (matches_pattern(entry, name)) return &value;
  }
  return nullptr;
}

}  // namespace lathe::cli
