// SPDX-License-Identifier: Apache-2.0
#include "backend/reference_layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/symbol_extents.h"
#include "ops/interpreter.h"

namespace lathe {

std::vector<Tactic> list_reference(const LayerQuery& query) {
  const Node& node = query.layer();
  if (std::holds_alternative<Reformat>(node.op)) return {};
  Tactic tactic = linear_tactic(query, kReferenceRunner, fmt::format("reference_{}", op_name(node.op)));
  tactic.last_resort = true;
  return {tactic};
}

ReferenceLayer::ReferenceLayer(const Graph& graph, const Node& node, const Tactic& tactic,
                               const SymbolValues& symbols, std::vector<Extents> inputs,
                               std::vector<Extents> outputs)
    : graph_(graph),
      node_(node),
      tactic_(tactic),
      symbols_(symbols),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)) {}

size_t ReferenceLayer::input_bytes(size_t index) const {
  return static_cast<size_t>(dtype_bytes(tactic_.inputs[index].dtype, element_count(inputs_[index])));
}

Tensor ReferenceLayer::constant(size_t index) const {
  const Value& value = graph_.value(node_.inputs[index]);
  return value.is_constant() && value.constant.has_bytes() ? value.constant : Tensor();
}

Tensor ReferenceLayer::known_numbers(size_t index) const {
  if (Tensor known = constant(index)) return known;
  const Value& value = graph_.value(node_.inputs[index]);
  if (!value.contents) return {};
  std::vector<double> numbers;
  for (const Dim& dim : *value.contents) {
    if (!is_known(dim, symbols_)) return {};
    numbers.push_back(static_cast<double>(dim.evaluate(symbols_)));
  }
  return Tensor::from_doubles(value.dtype, inputs_[index], numbers);
}

std::vector<Tensor> ReferenceLayer::evaluate(const std::vector<Tensor>& inputs,
                                             const BodyRunner* bodies) const {
  std::vector<Tensor> results = interpret_node(graph_, node_, inputs, symbols_, nullptr, bodies);
  results.resize(node_.outputs.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (node_.outputs[i] != kNoValue) check_result(results[i], i);
  return results;
}

bool ReferenceLayer::fits(size_t index, DType dtype, const Extents& extents) const {
  const auto is_at_most = [](int64_t extent, int64_t most) { return extent <= most; };
  return dtype == tactic_.outputs[index].dtype && std::ranges::equal(extents, outputs_[index], is_at_most);
}

void ReferenceLayer::check_result(const Tensor& result, size_t index) const {
  const DType planned = tactic_.outputs[index].dtype;
  if (fits(index, result.dtype(), result.extents())) return;
  throw_input_error(fmt::format("{} '{}' computed {} {}, but its output {} was planned as {} {} at most",
                                op_display_name(node_.op), node_.name, dtype_name(result.dtype()),
                                to_string(result.extents()), index, dtype_name(planned),
                                to_string(outputs_[index])));
}

void ReferenceLayer::resolve(const std::vector<Extents>& results, SymbolValues& values) const {
  for (size_t i = 0; i < results.size(); ++i) {
    if (node_.outputs[i] == kNoValue) continue;
    const Shape& shape = graph_.value(node_.outputs[i]).shape;
    for (size_t d = 0; d < shape.size() && d < results[i].size(); ++d)
      if (const auto name = shape[d].as_symbol(); name && !values.contains(*name))
        values.emplace(*name, results[i][d]);
  }
}

}  // namespace lathe
