// SPDX-License-Identifier: Apache-2.0
#include "builder/edit_network.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/observer.h"
#include "base/thread_pool.h"
#include "ir/edit.h"
#include "ir/substitute.h"
#include "ops/build.h"
#include "passes/passes.h"

namespace lathe {
namespace {

ValueId find_tensor(const Graph& graph, const std::string& name) {
  const auto id = graph.find_value(name);
  if (!id)
    throw_input_error("the network has no tensor '" + name +
                      "' (names are those of the model's values: `lathe inspect model.onnx --graph`)");
  return *id;
}

GraphEditor::NewValue copy_of(const Value& value) {
  return {.name = value.name,
          .dtype = value.dtype,
          .shape = value.shape,
          .contents = value.contents,
          .format = value.format,
          .quantization = value.quantization};
}

}  // namespace

void set_input_shape(Graph& graph, const std::string& input, const Extents& extents) {
  const auto id = graph.find_value(input);
  if (!id || !graph.is_input(*id)) throw_input_error("the network has no input '" + input + "'");
  const Shape shape = graph.value(*id).shape;
  DimReplacements replacements;
  for (size_t i = 0; i < std::max(extents.size(), shape.size()); ++i) {
    const bool both = extents.size() == shape.size();
    if (both && (extents[i] == -1 || shape[i].is_constant(extents[i]))) continue;
    if (!both || extents[i] < 0 || !shape[i].as_symbol())
      throw_input_error("input '" + input + "' of shape " + to_string(shape) + " cannot become " +
                        to_string(extents) + " (only dynamic dims can be set)");
    replacements.emplace(*shape[i].as_symbol(), extents[i]);
  }
  substitute_dims(graph, replacements);
  infer_shapes(graph);
}

void cut_input(Graph& graph, const std::string& tensor) {
  const ValueId id = find_tensor(graph, tensor);
  if (graph.is_input(id)) return;
  const Value value = graph.value(id);
  if (value.is_constant()) throw_input_error("'" + tensor + "' is a constant and cannot become an input");
  for (const Dim& dim : value.shape)
    if (!dim.data_dependent_names().empty())
      throw_input_error("'" + tensor + "' " + to_string(value.shape) +
                        " has a size that only a run finds, which no input has");
  if (graph.is_output(id)) throw_input_error("'" + tensor + "' is an output and cannot become an input, too");
  GraphEditor editor(graph);
  editor.rename_value(id, tensor + " before the cut");
  editor.replace_uses(id, editor.add_input(tensor, value.dtype, value.shape));
}

void set_outputs(Graph& graph, const std::vector<std::string>& tensors) {
  std::vector<ValueId> ids;
  for (const std::string& name : tensors) {
    ids.push_back(find_tensor(graph, name));
    if (std::count(ids.begin(), ids.end(), ids.back()) > 1)
      throw_input_error("'" + name + "' is given twice as an output");
  }
  GraphEditor editor(graph);
  editor.clear_outputs();
  for (const ValueId id : ids) editor.mark_output(id);
  editor.remove_dead_nodes();
}

void rename(Graph& graph, const std::string& from, const std::string& to) {
  GraphEditor editor(graph);
  if (to.empty()) throw_input_error("'" + from + "' needs a name");
  if (const auto id = graph.find_value(from)) {
    if (graph.find_value(to)) throw_input_error("there is a tensor '" + to + "' already");
    return editor.rename_value(*id, to);
  }
  NodeId found = kNoNode;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).name == to) throw_input_error("there is a node '" + to + "' already");
    if (graph.node(id).name == from) found = id;
  }
  if (found == kNoNode) throw_input_error("the network has neither a tensor nor a node '" + from + "'");
  editor.rename_node(found, to);
}

void fold(Graph& graph) {
  NullObserver quiet;
  ThreadPool pool(1);
  PassContext context(quiet, pool);
  run_passes(graph,
             {{"constant folding",
               {{"remove_dead", "DeadLayerRemoval", remove_dead},
                {"fold_constants", "ConstantFolding", fold_constants},
                {"remove_noop", "NoopRemoval", remove_noop}}}},
             {}, context);
}

Graph without_unused(Graph graph) {
  GraphEditor(graph).remove_dead_nodes();
  Graph result;
  GraphEditor editor(result);
  editor.set_name(graph.name());
  std::map<ValueId, ValueId> ids{{kNoValue, kNoValue}};
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    if (graph.users(id).empty() && !graph.is_output(id)) continue;
    ids[id] = editor.add_input(value.name, value.dtype, value.shape);
    editor.set_contents(ids[id], value.contents);
    editor.set_quantization(ids[id], value.quantization);
  }
  const auto use = [&](ValueId id) {
    const auto [known, is_new] = ids.try_emplace(id, kNoValue);
    if (is_new) {
      known->second = editor.add_constant(graph.value(id).name, graph.value(id).constant);
      editor.set_quantization(known->second, graph.value(id).quantization);
    }
    return known->second;
  };
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(use(input));
    const std::vector<ValueId> own(inputs.begin(),
                                   inputs.begin() + static_cast<std::ptrdiff_t>(node.op_input_count()));
    std::vector<GraphEditor::NewValue> outputs;
    for (const ValueId output : node.outputs)
      outputs.push_back(output == kNoValue ? GraphEditor::NewValue{} : copy_of(graph.value(output)));
    const NodeId copy = editor.add_node(node.name, node.op, own, std::move(outputs), node.origins);
    editor.set_epilogue(copy, node.epilogue,
                        {inputs.begin() + static_cast<std::ptrdiff_t>(own.size()), inputs.end()});
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNoValue) ids[node.outputs[k]] = result.node(copy).outputs[k];
  }
  for (const ValueId id : graph.outputs()) editor.mark_output(use(id));
  return result;
}

}  // namespace lathe
