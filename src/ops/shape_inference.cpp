// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_inference.h"

#include <algorithm>

#include "ir/dim_clamps.h"
#include "ops/build.h"
#include "ops/control_flow.h"

namespace lathe {
namespace {

bool has_name_found_by_run(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Dim& dim) {
    return !dim.is_constant() && !dim.data_dependent_names().empty();
  });
}

void add_names(const Shape& shape, std::set<std::string>& names) {
  for (const Dim& dim : shape) names.merge(dim.data_dependent_names());
}

// The names that the node reads. It defines all others that its results have.
std::set<std::string> names_read(const Graph& graph, const Node& node) {
  std::set<std::string> names = symbols_of(node.op);
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    add_names(graph.value(input).shape, names);
    if (graph.value(input).contents) add_names(*graph.value(input).contents, names);
  }
  return names;
}

bool has_bodies(const Node& node) {
  return !bodies_of(node.op).empty();
}

}  // namespace

void ShapeInference::replace_names(NodeId id) {
  if (known_.empty()) return;
  const std::set<std::string> names = symbols_of(graph_.node(id).op);
  if (has_bodies(graph_.node(id)) ||
      std::any_of(names.begin(), names.end(), [&](const std::string& n) { return known_.contains(n); }))
    GraphEditor(graph_).set_op(id, substitute_dims(graph_.node(id).op, known_));
}

// Captured values have the contents that they have outside.
void ShapeInference::tell_contents(NodeId id, Graph& body) const {
  const Node& node = graph_.node(id);
  const Captured captured = captured_by(node.op);
  std::vector<const Value*> operands;
  for (const ValueId input : node.inputs)
    operands.push_back(input == kNoValue ? nullptr : &graph_.value(input));
  const InferContext context{node.name, operands, node.outputs.size()};
  for (size_t i = captured.first_operand; i < operands.size(); ++i) {
    const size_t input = captured.first_input + i - captured.first_operand;
    if (input >= body.inputs().size()) return;  // too many operands, which the rule of the operator refuses
    if (auto contents = context.contents(i))
      GraphEditor(body).set_contents(body.inputs()[input], std::move(contents));
  }
}

// What the dim of a result is now, which was `before`.
Dim ShapeInference::settle(const Dim& before, const Dim& inferred, const std::set<std::string>& read) {
  const auto name = before.as_symbol();
  const auto is_read = [&](const std::string& n) { return read.contains(n); };
  if (!name || before == inferred || before.data_dependent_names().empty() || is_read(*name)) return inferred;
  Dim now = inferred;
  // The rule makes a name of the node's, and a rewrite may have renamed the node. The old name stays.
  const std::set<std::string> found = inferred.data_dependent_names();
  if (!std::all_of(found.begin(), found.end(), is_read)) {
    if (!inferred.as_symbol()) return before;
    now = Dim::data_dependent(*name, data_dependent_uppers(inferred).begin()->second);
  }
  if (!(now == before)) known_.emplace(*name, now);
  return now;
}

void ShapeInference::infer(NodeId id) {
  replace_names(id);
  GraphEditor editor(graph_);
  if (has_bodies(graph_.node(id)))
    editor.set_op(id, map_bodies(graph_.node(id).op, [&](const Graph& old) {
                    Graph body = old;
                    tell_contents(id, body);
                    infer_shapes(body);
                    return body;
                  }));
  const Node& node = graph_.node(id);
  std::vector<ResultInfo> results = infer_node(graph_, node);
  std::optional<std::set<std::string>> read;
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueId output = node.outputs[i];
    if (output == kNoValue) continue;
    const Value& value = graph_.value(output);
    if (!type_is_allowed(node, results[i].dtype, value.number_type()))
      editor.set_type(output, results[i].dtype, value.format);
    Shape shape = std::move(results[i].shape);
    if (has_name_found_by_run(value.shape) && value.shape.size() == shape.size()) {
      if (!read) read = names_read(graph_, node);
      const Shape before = substitute_dims(value.shape, known_);
      for (size_t d = 0; d < shape.size(); ++d) shape[d] = settle(before[d], shape[d], *read);
    }
    editor.set_shape(output, std::move(shape));
    editor.set_contents(output, std::move(results[i].contents));
  }
}

bool has_dims_found_by_runs(const Graph& graph) {
  for (const NodeId node : graph.order())
    for (const ValueId id : graph.node(node).outputs)
      if (id != kNoValue && has_name_found_by_run(graph.value(id).shape)) return true;
  return false;
}

}  // namespace lathe
