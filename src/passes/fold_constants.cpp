// SPDX-License-Identifier: Apache-2.0
//
// Replaces what does not depend on the inputs by its value: a node whose inputs are all constants is run by
// the reference evaluation, and a shape computation whose elements are all known becomes a constant without
// being run. A tensor without elements is a constant, too: a sum over it is the same in every run.
//
// Must not fire when the result is much larger than what it is made of (an Expand of one number to a whole
// tensor): that would cost memory to save nothing. Quantised weights are the exception: a layer packs its
// weights once when they are numbers, and would have to dequantise and pack them in every run when they are
// not. The result says on which grid it lies. Nor for a graph output, which a node must write; one that is
// made of no elements is copied from its constant.
#include <algorithm>
#include <limits>

#include "ir/dim_clamps.h"
#include "ir/edit.h"
#include "ir/recipe.h"
#include "ops/op_def.h"
#include "ops/shape_inference.h"
#include "passes/grids.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

constexpr int64_t kFreeBytes = 1 << 20;

// At most, where a run finds dims; -1 when dims follow from the inputs' shapes.
int64_t bytes_of(const Value& value) {
  const Dim count = element_count(value.shape);
  if (count.is_constant()) return dtype_bytes(value.dtype, count.value());
  const auto bounds = find_bounds(count, {});
  if (!bounds || bounds->high > std::numeric_limits<int32_t>::max()) return -1;
  return dtype_bytes(value.dtype, bounds->high);
}

bool has_no_elements(const Value& value) {
  return is_static(value.shape) && bytes_of(value) == 0;
}

// Do dims in the operator's fields depend on the inputs' shapes?
bool has_symbolic_field(const Op& op) {
  bool symbolic = false;
  const auto look = [&]<class F>(std::string_view, const F& field) {
    if constexpr (std::is_same_v<F, Shape>) symbolic |= !is_static(field);
    if constexpr (std::is_same_v<F, std::optional<Shape>>) symbolic |= field && !is_static(*field);
  };
  std::visit([&]<class T>(const T& fields) { T::visit(fields, look); }, op);
  return symbolic;
}

bool is_foldable(const Graph& graph, const Node& node) {
  if (std::holds_alternative<Reformat>(node.op) || std::holds_alternative<Plugin>(node.op) ||
      !bodies_of(node.op).empty() || has_symbolic_field(node.op))
    return false;
  int64_t in = 0, out = 0;
  bool reads_none = false;
  for (ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    const Value& value = graph.value(input);
    reads_none |= has_no_elements(value);
    if (has_no_elements(value)) continue;
    if (!value.is_constant() || !value.constant.has_bytes()) return false;
    in += bytes_of(value);
  }
  for (ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    const int64_t bytes = bytes_of(graph.value(output));
    if (bytes < 0 || (graph.is_output(output) && (!reads_none || bytes == 0))) return false;
    out += bytes;
  }
  return std::holds_alternative<DequantizeLinear>(node.op) || out <= std::max(kFreeBytes, 2 * in);
}

std::vector<Tensor> evaluate(const Graph& graph, const Node& node, ThreadPool& pool) {
  std::vector<Tensor> inputs;
  for (ValueId input : node.inputs) {
    if (input == kNoValue) {
      inputs.emplace_back();
      continue;
    }
    const Value& value = graph.value(input);
    inputs.push_back(value.is_constant() ? value.constant
                                         : Tensor::allocate(value.dtype, to_extents(value.shape)));
  }
  const SymbolValues no_symbols;
  const EvaluateContext context{inputs, node.outputs.size(), &no_symbols, &pool};
  const ValueId first = node.outputs[0];
  const DType dtype = first == kNoValue ? DType::Undefined : graph.value(first).dtype;
  std::vector<Tensor> results = evaluate_node(node, context, dtype);
  for (size_t k = 0; k < results.size(); ++k)
    if (results[k] && results[k].dtype() == dtype)
      results[k] = made_by(std::move(results[k]), node.op, inputs, node.epilogue, k);
  return results;
}

// The elements of a shape computation, when all are numbers.
std::optional<Tensor> known_contents(const Graph& graph, const Node& node) {
  if (node.outputs.size() != 1 || node.outputs[0] == kNoValue || graph.is_output(node.outputs[0]))
    return std::nullopt;
  const Value& value = graph.value(node.outputs[0]);
  if (!value.contents || !is_static(*value.contents) || !is_static(value.shape)) return std::nullopt;
  std::vector<double> elements;
  for (const Dim& dim : *value.contents) {
    // Doubles hold integers up to 2^53; a shape beyond that is left to run.
    if (dim.value() > (int64_t{1} << 53) || dim.value() < -(int64_t{1} << 53)) return std::nullopt;
    elements.push_back(static_cast<double>(dim.value()));
  }
  const Extents extents = to_extents(value.shape);
  if (static_cast<int64_t>(elements.size()) != element_count(extents)) return std::nullopt;
  return Tensor::from_doubles(value.dtype, extents, elements);
}

// Quantised weights keep their grid, so that kernels can have the integers back: in 16 bits, too, whose
// rounding is less than half a step.
std::optional<Quantization> grid_of_constant(const Graph& graph, const Node& node, size_t output) {
  if (node.outputs[output] == kNoValue) return std::nullopt;
  const DType type = graph.value(node.outputs[output]).dtype;
  if (type != DType::Float32 && type != DType::Float16 && type != DType::BFloat16) return std::nullopt;
  if (output > 0 && !std::holds_alternative<Split>(node.op)) return std::nullopt;
  const std::optional<Quantization> grid = grid_of_dequantize(graph, node);
  return grid ? grid : grid_of_moved(graph, node);
}

// Where the graph gives the value, a copy of the constant does.
void give_constant(GraphEditor& editor, const Graph& graph, const Node& node, ValueId output,
                   ValueId constant) {
  const Value value = graph.value(output);
  const Shape shape = graph.value(constant).shape;
  editor.rename_value(output, value.name + "_before_folding");
  const NodeId copy =
      editor.add_node(node.name + " folded", Pointwise{.code = PointwiseCode::Identity}, {constant},
                      {{.name = value.name, .dtype = value.dtype, .shape = shape}}, node.origins);
  for (size_t k = 0; k < graph.outputs().size(); ++k)
    if (graph.outputs()[k] == output) editor.replace_output(k, graph.node(copy).outputs[0]);
}

// Dims that were to be found by the run of the node: others name them.
void define_dims(const Graph& graph, const Node& node, const std::vector<Tensor>& results,
                 ShapeInference& inference) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const Shape& shape = graph.value(node.outputs[i]).shape;
    for (size_t d = 0; d < shape.size(); ++d)
      if (const auto name = shape[d].as_symbol()) inference.define(*name, Dim(results[i].extents()[d]));
  }
}

void replace_by_constants(Graph& graph, NodeId id, std::vector<Tensor> results) {
  GraphEditor editor(graph);
  const std::vector<ValueId> outputs = graph.node(id).outputs;
  std::vector<std::optional<Quantization>> grids(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) grids[i] = grid_of_constant(graph, graph.node(id), i);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNoValue) continue;
    const Value value = graph.value(outputs[i]);
    const ValueId constant = editor.add_constant(value.name + "_folded", std::move(results[i]));
    editor.set_contents(constant, value.contents);
    editor.set_quantization(constant, grids[i]);
    if (graph.is_output(outputs[i])) give_constant(editor, graph, Node(graph.node(id)), outputs[i], constant);
    editor.replace_uses(outputs[i], constant);
  }
  editor.remove_node(id);
}

}  // namespace

// Sweeps over the graph once: what a node defines is known before the nodes that read it are looked at.
bool fold_constants(Graph& graph, PassContext& context) {
  bool changed = false, may_change = true;
  const bool infers = has_dims_found_by_runs(graph);
  ShapeInference inference(graph);
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (infers) inference.infer(id);
    const Node& node = graph.node(id);
    if (!may_change) continue;
    auto contents = known_contents(graph, node);
    if (!contents && !is_foldable(graph, node)) continue;
    may_change = context.may_change();
    if (!may_change) continue;  // the nodes behind must still hear of what others defined
    context.report_removal(graph, id);
    std::vector<Tensor> results;
    if (contents) {
      results.push_back(std::move(*contents));
    } else {
      results = evaluate(graph, node, context.pool);
    }
    define_dims(graph, node, results, inference);
    replace_by_constants(graph, id, std::move(results));
    changed = true;
  }
  return changed || inference.found_some();
}

}  // namespace lathe
