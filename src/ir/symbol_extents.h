// SPDX-License-Identifier: Apache-2.0
//
// Extents while some dims are not known yet: a data-dependent dim counts with its upper bound until the layer
// that produces it has run. upper_extents() bounds it by what is known of this run, bounded_extents() by a
// whole optimization profile.
#pragma once

#include <algorithm>

#include "ir/dim_clamps.h"
#include "ir/graph.h"

namespace lathe {

// The data-dependent names in a dim that have values, also those in the bounds of others; whether there are
// others.
inline bool find_known(const Dim& dim, const SymbolValues& values,
                       std::map<std::string, Dim, std::less<>>& known) {
  bool open = false;
  for (const auto& [name, upper] : data_dependent_uppers(dim)) {
    const auto found = values.find(name);
    if (found != values.end()) {
      known.emplace(name, Dim(found->second));
    } else {
      open = true;
      find_known(upper, values, known);
    }
  }
  return open;
}

inline int64_t upper_extent(const Dim& dim, const SymbolValues& values) {
  if (dim.is_constant()) return dim.value();
  std::map<std::string, Dim, std::less<>> known;
  if (!find_known(dim, values, known)) return dim.evaluate(values);
  SymbolRanges ranges;
  for (const auto& [name, value] : values) ranges.emplace(name, SymbolRange{value, value, value});
  return largest(dim.substitute(known), ranges);
}

inline bool is_known(const Dim& dim, const SymbolValues& values) {
  if (dim.is_constant()) return true;
  const std::set<std::string> names = dim.data_dependent_names();
  return std::all_of(names.begin(), names.end(), [&](const std::string& n) { return values.contains(n); });
}

inline bool is_known(const Shape& shape, const SymbolValues& values) {
  return std::all_of(shape.begin(), shape.end(), [&](const Dim& dim) { return is_known(dim, values); });
}

inline Extents upper_extents(const Shape& shape, const SymbolValues& values) {
  Extents extents;
  extents.reserve(shape.size());
  for (const Dim& dim : shape) extents.push_back(upper_extent(dim, values));
  return extents;
}

// The bytes of a value in its own type and format.
inline int64_t stored_bytes(const Value& value, const SymbolValues& values) {
  return storage_bytes(value.dtype, upper_extents(value.shape, values), value.format);
}

// Of a layer that is tuned at `values`: a data-dependent dim without a value at its bound within `ranges`.
inline Extents bounded_extents(const Shape& shape, const SymbolValues& values, const SymbolRanges& ranges) {
  Extents extents;
  extents.reserve(shape.size());
  for (const Dim& dim : shape)
    extents.push_back(is_known(dim, values) ? dim.evaluate(values) : largest(dim, ranges));
  return extents;
}

// upper_extents() of a layer's operands; absent ones are empty.
inline std::vector<Extents> upper_extents(const Graph& graph, const std::vector<ValueId>& operands,
                                          const SymbolValues& values) {
  std::vector<Extents> all;
  all.reserve(operands.size());
  for (const ValueId id : operands)
    all.push_back(id == kNoValue ? Extents{} : upper_extents(graph.value(id).shape, values));
  return all;
}

}  // namespace lathe
