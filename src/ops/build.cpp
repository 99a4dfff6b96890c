// SPDX-License-Identifier: Apache-2.0
//
// Nodes with inferred results, and the check that a graph obeys its operators' rules. Types and shapes must
// be equal, but for dims that only a run finds: when a rewrite makes known what they depend on, they stay the
// run's to find.

#include "ops/build.h"

#include "ir/verify.h"
#include "ops/shape_inference.h"
#include "ops/shape_rules.h"

namespace lathe {

namespace {

std::vector<const Value*> input_values(const Graph& graph, const std::vector<ValueId>& inputs) {
  std::vector<const Value*> values;
  for (ValueId id : inputs) values.push_back(id == kNoValue ? nullptr : &graph.value(id));
  return values;
}

bool same_shape(const Shape& inferred, const Shape& actual) {
  if (inferred.size() != actual.size()) return false;
  for (size_t d = 0; d < inferred.size(); ++d) {
    const bool found_by_the_run = actual[d].as_symbol() && !actual[d].data_dependent_names().empty();
    if (!(inferred[d] == actual[d]) && !found_by_the_run) return false;
  }
  return true;
}

}  // namespace

std::vector<ResultInfo> infer_node(const Graph& graph, const Node& node) {
  const std::vector<const Value*> inputs = input_values(graph, node.inputs);
  return infer(node.op, node.epilogue, InferContext{node.name, inputs, node.outputs.size()});
}

bool type_is_allowed(const Node& node, DType inferred, DType actual) {
  if (inferred == actual || std::holds_alternative<Reformat>(node.op)) return true;
  const bool is_program = !node.epilogue.empty() || std::holds_alternative<PointwiseChain>(node.op);
  return is_float(inferred) && is_float(actual) && (is_program || !node.allowed_types.empty());
}

std::vector<ValueId> append_node(GraphEditor& editor, std::string name, Op op, std::vector<ValueId> inputs,
                                 std::vector<Origin> origins, std::vector<std::string> output_names,
                                 size_t output_count, NodeId before) {
  const std::vector<const Value*> values = input_values(editor.graph(), inputs);
  std::vector<ResultInfo> results = infer(op, {}, InferContext{name, values, output_count});
  std::vector<GraphEditor::NewValue> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    std::string output = i < output_names.size() ? output_names[i] : "";
    if (output.empty() && (i >= output_names.size() || i == 0)) {
      output = name + "_output" + (i == 0 ? "" : "_" + std::to_string(i));
    }
    outputs.push_back(
        {std::move(output), results[i].dtype, std::move(results[i].shape), std::move(results[i].contents)});
  }
  const NodeId node = editor.add_node(std::move(name), std::move(op), std::move(inputs), std::move(outputs),
                                      std::move(origins), before);
  return editor.graph().node(node).outputs;
}

namespace {

// Of the graph and, before the operators that have them, of its bodies.
void verify_types(const Graph& graph) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const Body& body : bodies_of(node.op)) verify_types(body.graph());
    const std::vector<ResultInfo> results = infer_node(graph, node);
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      const Value& value = graph.value(node.outputs[i]);
      if (type_is_allowed(node, results[i].dtype, value.number_type()) &&
          same_shape(results[i].shape, value.shape))
        continue;
      check(false, "node '" + node.name + "' (" + std::string(op_display_name(node.op)) + "): output '" +
                       value.name + "' is " + type_text(value.dtype, value.shape) +
                       " in the graph, but the operator gives " +
                       type_text(results[i].dtype, results[i].shape));
    }
  }
}

}  // namespace

void verify_graph(const Graph& graph) {
  verify_structure(graph);
  verify_types(graph);
}

void infer_shapes(Graph& graph) {
  ShapeInference inference(graph);
  for (const NodeId id : graph.order()) inference.infer(id);
}

}  // namespace lathe
