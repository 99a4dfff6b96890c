// SPDX-License-Identifier: Apache-2.0
//
// Extents while some dims are not known yet: a data-dependent dim counts with its upper bound until the layer that produces it
// has run. upper_extents() bounds it by what is known of this run, bounded_extents() by a whole optimization profile.
#pragma once

#include "ir/graph.h"

namespace lathe {

inline int64_t upper_extent(const Dim& dim, const SymbolValues& values) {
  if (dim.is_constant()) return dim.value();
  std::map<std::string, Dim, std::less<>> known;
  bool open = false;
  for (const std::string& name : dim.data_dependent_names()) {
    const auto found = values.find(name);
    if (found == values.end())
      open = true;
    else
      known.emplace(name, Dim(found->second));
  }
  if (!open) return dim.evaluate(values);
  SymbolRanges ranges;
  for (const auto& [name, value] : values) ranges.emplace(name, SymbolRange{value, value, value});
  return dim.substitute(known).bounds(ranges).high;
}

inline Extents upper_extents(const Shape& shape, const SymbolValues& values) {
  Extents extents;
  extents.reserve(shape.size());
  for (const Dim& dim : shape) extents.push_back(upper_extent(dim, values));
  return extents;
}

// Of a layer that is tuned at `values`: a data-dependent dim at its bound within `ranges`, every other one at its value.
inline Extents bounded_extents(const Shape& shape, const SymbolValues& values, const SymbolRanges& ranges) {
  Extents extents;
  extents.reserve(shape.size());
  for (const Dim& dim : shape)
    extents.push_back(dim.data_dependent_names().empty() ? dim.evaluate(values) : dim.bounds(ranges).high);
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
