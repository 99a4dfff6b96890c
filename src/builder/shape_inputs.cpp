// SPDX-License-Identifier: Apache-2.0
#include "builder/shape_inputs.h"

#include <algorithm>
#include <optional>
#include <set>

#include "backend/sizes_from_values.h"
#include "base/error.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe {
namespace {

std::set<std::string> names_found_by_runs(const Graph& graph) {
  std::set<std::string> names;
  for (const NodeId node : graph.order())
    for (const ValueId id : graph.node(node).outputs)
      if (id != kNoValue)
        for (const Dim& dim : graph.value(id).shape) names.merge(dim.data_dependent_names());
  return names;
}

bool may_decide_shapes(const Value& value) {
  return (value.dtype == DType::Int64 || value.dtype == DType::Int32) && value.shape.size() <= 1 &&
         is_static(value.shape) && !value.contents && element_count(to_extents(value.shape)) > 0 &&
         element_count(to_extents(value.shape)) <= kMostSizeElements;
}

Shape symbols_of(const Value& value) {
  Shape symbols;
  const int64_t count = element_count(to_extents(value.shape));
  for (int64_t i = 0; i < count; ++i) symbols.push_back(Dim::symbol(value.name + "." + std::to_string(i)));
  return symbols;
}

Graph with_contents(Graph graph, ValueId input, const Shape& contents) {
  GraphEditor(graph).set_contents(input, contents);
  infer_shapes(graph);
  return graph;
}

ShapeRange hull(ShapeRange a, const ShapeRange& b) {
  for (size_t i = 0; i < std::min(a.min.size(), b.min.size()); ++i) a.min[i] = std::min(a.min[i], b.min[i]);
  for (size_t i = 0; i < std::min(a.max.size(), b.max.size()); ++i) a.max[i] = std::max(a.max[i], b.max[i]);
  return a;
}

Dim element_dim(const std::string& input, size_t i, const Dim& symbol, const ShapeRange& range) {
  const int64_t low = range.min[i], high = range.max[i];
  if (low >= 0) return symbol;
  if (low == high) return low;
  throw_input_error("shape tensor '" + input + "': element " + std::to_string(i) + " is " +
                    std::to_string(low) + " at least and " + std::to_string(high) +
                    " at most; a negative element must be the same in min, opt and max");
}

}  // namespace

std::vector<std::string> find_shape_inputs(const Graph& graph) {
  std::vector<std::string> found;
  const size_t known = names_found_by_runs(graph).size();
  if (known == 0) return found;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    if (may_decide_shapes(value) &&
        names_found_by_runs(with_contents(graph, id, symbols_of(value))).size() < known)
      found.push_back(value.name);
  }
  return found;
}

void mark_shape_input(Graph& graph, std::string_view input, const ShapeRange& elements) {
  const auto id = graph.find_value(input);
  check(id.has_value(), "no such input: " + std::string(input));
  const Value& value = graph.value(*id);
  const Shape symbols = symbols_of(value);
  for (const Extents* given : {&elements.min, &elements.opt, &elements.max})
    if (given->size() != symbols.size())
      throw_input_error("shape tensor '" + value.name + "' has " + std::to_string(symbols.size()) +
                        " elements, but was given " + std::to_string(given->size()));
  Shape contents;
  for (size_t i = 0; i < symbols.size(); ++i)
    contents.push_back(element_dim(value.name, i, symbols[i], elements));
  GraphEditor(graph).set_contents(*id, contents);
  infer_shapes(graph);
}

void mark_shape_inputs(Network& network, const std::vector<OptimizationProfile>& profiles) {
  const auto is_given = [](const OptimizationProfile& p) { return !p.values.empty(); };
  if (std::none_of(profiles.begin(), profiles.end(), is_given)) return;
  for (const std::string& input : find_shape_inputs(*network.graph)) {
    std::optional<ShapeRange> all;
    for (const OptimizationProfile& profile : profiles) {
      const auto given = profile.values.find(input);
      if (given == profile.values.end()) continue;
      all = all ? hull(*all, given->second) : given->second;
    }
    if (!all) continue;
    auto marked = std::make_shared<Graph>(*network.graph);
    mark_shape_input(*marked, input, *all);
    network.graph = std::move(marked);
  }
}

}  // namespace lathe
