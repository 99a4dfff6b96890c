// SPDX-License-Identifier: Apache-2.0
#include "onnx/export_graph.h"

#include <algorithm>

#include "ir/dim_expr.h"
#include "onnx/model.h"

namespace lathe::onnx {

GraphExport::GraphExport(const Graph& graph, const GraphExport& around, const Names& input_names)
    : graph_(graph), writer_(around.model()), around_(&around) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) name_value(graph.inputs()[i], input_names[i]);
}

void GraphExport::name_value(ValueId id, std::string name) {
  const Shape& shape = graph_.value(id).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (const auto symbol = shape[axis].as_symbol())
      symbols_.try_emplace(*symbol, Place{name, static_cast<int64_t>(axis)});
  names_.emplace(id, std::move(name));
}

std::string GraphExport::name_of(ValueId id) const {
  return id == kNoValue ? "" : names_.at(id);
}

Names GraphExport::grid_of(ValueId id) {
  const Quantization& grid = *graph_.value(id).quantization;
  const bool one = grid.is_per_tensor();
  const Extents extents = one ? Extents{} : Extents{static_cast<int64_t>(grid.scales.size())};
  const std::vector<double> zeros(grid.zeros.begin(), grid.zeros.end());
  std::vector<double> all(grid.scales.size(), zeros[0]);
  return {constant("scale", Tensor::from<float>(extents, grid.scales)),
          constant("zero_point",
                   Tensor::from_doubles(grid.dtype, extents, zeros.size() == all.size() ? zeros : all))};
}

std::string GraphExport::number_of(ValueId id) {
  if (id == kNoValue || !graph_.value(id).is_stored_quantized()) return name_of(id);
  std::string& known = numbers_[id];
  if (!known.empty()) return known;
  known = model().unique(graph_.value(id).name + "_numbers");
  const Names grid = grid_of(id);
  const int64_t axis = std::max<int64_t>(0, graph_.value(id).quantization->axis);
  node({.op_type = "DequantizeLinear",
        .name = known,
        .inputs = {name_of(id), grid[0], grid[1]},
        .outputs = {known},
        .attributes = {{"axis", axis}}},
       1);
  return known;
}

std::string GraphExport::write(std::optional<size_t> own_inputs) {
  const auto unnamed = [&](ValueId id) { return id != kNoValue && !names_.contains(id); };
  const auto name_if_new = [&](ValueId id) {
    if (unnamed(id)) name_value(id, model().unique(graph_.value(id).name));
  };
  for (const ValueId id : graph_.inputs()) name_if_new(id);
  for (const ValueId id : graph_.outputs()) {  // before anything in between can take the name
    name_if_new(id);
    if (graph_.value(id).is_constant()) writer_.constant(name_of(id), graph_.value(id).constant);
  }
  for (size_t i = 0; i < own_inputs.value_or(graph_.inputs().size()); ++i) {
    const Value& value = graph_.value(graph_.inputs()[i]);
    writer_.input(name_of(graph_.inputs()[i]), value.dtype, value.shape);
  }
  for (const NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    for (const ValueId input : node.inputs) {
      if (!unnamed(input)) continue;
      check(graph_.value(input).is_constant(), "a value is read before it is there");
      name_if_new(input);
      writer_.constant(name_of(input), graph_.value(input).constant);
    }
    for (const ValueId output : node.outputs) name_if_new(output);
    export_node(*this, node);
  }
  for (const ValueId id : graph_.outputs()) {
    const Value& value = graph_.value(id);
    writer_.output(name_of(id), value.dtype, value.shape);
  }
  return writer_.finish(around_ ? model().unique("body") : graph_.name());
}

void GraphExport::node(GraphWriter::NodeText text, int64_t since) {
  model().opset = std::max(model().opset, since);
  text.name = model().unique(text.name.empty() ? text.op_type : text.name);
  while (!text.inputs.empty() && text.inputs.back().empty()) text.inputs.pop_back();
  writer_.node(text);
}

std::string GraphExport::constant(std::string_view name, const Tensor& tensor) {
  std::string unique = model().unique(name);
  writer_.constant(unique, tensor);
  return unique;
}

std::string GraphExport::ints(const Ints& values) {
  return constant("ints", Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values));
}

std::string GraphExport::scalar(double value, DType dtype) {
  return constant("scalar", Tensor::from_doubles(dtype, {}, std::span(&value, 1)));
}

std::string GraphExport::dims(const Shape& shape) {
  if (is_static(shape)) return ints(to_extents(shape));
  if (shape.size() == 1) return dim(shape[0]);
  Names parts;
  for (const Dim& d : shape) parts.push_back(dim(d));
  std::string all = model().unique("dims");
  node({.op_type = "Concat",
        .name = all,
        .inputs = parts,
        .outputs = {all},
        .attributes = {{"axis", int64_t{0}}}},
       1);
  return all;
}

const GraphExport::Place* GraphExport::find_symbol(std::string_view symbol) const {
  if (const auto found = symbols_.find(symbol); found != symbols_.end()) return &found->second;
  return around_ ? around_->find_symbol(symbol) : nullptr;
}

std::string GraphExport::symbol(const std::string& name) {
  const Place* place = find_symbol(name);
  if (place == nullptr)
    throw_input_error("the dim '" + name +
                      "' cannot be written as ONNX: no input and no result before its use has it");
  std::string result = model().unique(name);
  node({.op_type = "Shape",
        .name = result,
        .inputs = {place->value},
        .outputs = {result},
        .attributes = {{"start", place->axis}, {"end", place->axis + 1}}},
       15);
  return result;
}

std::string GraphExport::arithmetic(std::string_view op_type, const std::string& a, const std::string& b) {
  std::string result = model().unique("dim");
  node({.op_type = op_type, .name = result, .inputs = {a, b}, .outputs = {result}}, 1);
  return result;
}

// The normal form term by term; dims are not negative, so that ONNX's division is a floor division.
std::string GraphExport::dim(const Dim& dim) {
  if (dim.is_constant()) return ints({dim.value()});
  std::string& known = dims_[dim.to_string()];
  if (!known.empty()) return known;
  std::string sum;
  for (const DimTerm& term : DimAccess::terms(dim)) {
    std::string product = term.coefficient == 1 && !term.atoms.empty() ? "" : ints({term.coefficient});
    for (const DimAtom& atom : term.atoms) {
      using Kind = DimAtom::Kind;
      const bool is_name = atom.kind == Kind::Symbol || atom.kind == Kind::DataDependent;
      const std::string_view op_type = atom.kind == Kind::FloorDiv ? "Div"
                                       : atom.kind == Kind::Mod    ? "Mod"
                                       : atom.kind == Kind::Min    ? "Min"
                                                                   : "Max";
      const std::string value =
          is_name ? symbol(atom.name) : arithmetic(op_type, this->dim(atom.a), this->dim(atom.b));
      product = product.empty() ? value : arithmetic("Mul", product, value);
    }
    sum = sum.empty() ? product : arithmetic("Add", sum, product);
  }
  return dims_[dim.to_string()] = sum;
}

}  // namespace lathe::onnx
