// SPDX-License-Identifier: Apache-2.0
#include "backend/open_size.h"

#include <algorithm>

#include "ir/dim_clamps.h"
#include "ir/symbol_extents.h"

namespace lathe {
namespace {

constexpr int64_t kMostAssumed = 1024;

bool is_found_by_the_run(const Value& value) {
  return !value.is_constant() && std::any_of(value.shape.begin(), value.shape.end(), [](const Dim& d) {
    return !d.is_constant() && !d.data_dependent_names().empty();
  });
}

double bytes_of(DType dtype, const Extents& extents) {
  double bytes = static_cast<double>(dtype_bytes(dtype, 64)) / 64;
  for (const int64_t extent : extents) bytes *= static_cast<double>(std::max<int64_t>(0, extent));
  return bytes;
}

}  // namespace

bool has_open_size(const Value& value, const SymbolRanges& ranges) {
  if (!is_found_by_the_run(value)) return false;
  Extents most;
  for (const Dim& d : value.shape) most.push_back(largest(d, ranges));
  return bytes_of(value.dtype, most) > kMostPlannedBytes;
}

void assume_open_sizes(const Graph& graph, std::span<const ValueId> values, const SymbolRanges& ranges,
                       SymbolValues& symbols) {
  std::vector<const Value*> open;
  SymbolValues uppers;
  for (const ValueId id : values) {
    if (id == kNoValue || !has_open_size(graph.value(id), ranges)) continue;
    open.push_back(&graph.value(id));
    for (const Dim& d : open.back()->shape)
      for (const auto& [name, upper] : data_dependent_uppers(d)) uppers.emplace(name, largest(upper, ranges));
  }
  for (int64_t most = kMostAssumed; most > 0; most /= 2) {
    for (const auto& [name, upper] : uppers) symbols[name] = std::min(upper, most);
    if (std::all_of(open.begin(), open.end(), [&](const Value* value) {
          return bytes_of(value->dtype, upper_extents(value->shape, symbols)) <= kMostPlannedBytes;
        }))
      return;
  }
}

}  // namespace lathe
