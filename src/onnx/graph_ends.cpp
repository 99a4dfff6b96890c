// SPDX-License-Identifier: Apache-2.0
//
// The inputs and outputs of a model. A sequence is a list of tensors in the graph, and so it is at its
// ends: how many tensors it has is said before the import, and each is an input or an output of its own.
// One whose length only a run finds is an output that has its tensors as slices where they have one shape;
// else it is two, all numbers of its tensors in one dim, and their shapes.
#include <algorithm>
#include <map>

#include "onnx/bodies.h"
#include "onnx/graph_importer.h"

namespace lathe::onnx {

namespace {

constexpr int64_t kMostElements = 4096;  // of a sequence that is an input

std::string part_name(const std::string& name, size_t i) {
  return name + "_" + std::to_string(i);
}

std::string shapes_name(const std::string& name) {
  return name + ".shapes";
}

}  // namespace

Shape GraphImporter::input_shape(const std::string& name, const TypeProto& type) {
  const auto given = options_.input_shapes.find(name);
  if (given != options_.input_shapes.end() && (!type.shape || options_.fix_shapes))
    return to_shape(given->second);  // of strings with the dim of their bytes
  if (!type.shape) {
    throw_unsupported("input '" + name +
                      "' has no shape, not even a rank; give it one with --shapes (in the model, dims may "
                      "have names instead of numbers)");
  }
  Shape shape;
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dimension& d = (*type.shape)[i];
    // Some exporters write -1 or 0 for a dim that they do not know.
    if (d.value && (*d.value > 0 || (*d.value == 0 && d.param.empty()))) {
      shape.push_back(*d.value);
    } else if (d.value && *d.value < -1) {
      throw_input_error("input '" + name + "' has dimension " + std::to_string(*d.value));
    } else {
      const std::string symbol = d.param.empty() ? name + ".dim" + std::to_string(i) : std::string(d.param);
      shape.push_back(Dim::symbol(symbol_name(symbol)));
    }
  }
  if (type.elem_type == kStringType) shape.push_back(Dim::symbol(symbol_name(name + ".bytes")));
  return shape;
}

ValueId GraphImporter::add_tensor_input(const std::string& name, const TypeProto& type) {
  const bool strings = type.elem_type == kStringType;
  const DType dtype = strings ? DType::UInt8 : dtype_from_onnx(type.elem_type, "input '" + name + "'");
  if (const auto it = options_.constant_inputs.find(name); it != options_.constant_inputs.end()) {
    if (it->second.dtype() != dtype)
      throw_input_error("the constant for input '" + name + "' has another type");
    const ValueId id = builder_.add_constant(name, it->second);
    if (strings) builder_.mark_strings(id);
    return id;
  }
  const ValueId id = builder_.editor().add_input(name, dtype, input_shape(name, type));
  if (strings) {
    builder_.mark_strings(id);
    strings_.insert(name);
  }
  log_.input(builder_.graph(), name, id);
  return id;
}

// Tensors of one sequence may differ in each dim, so that the names of their dims are their own.
ValueId GraphImporter::add_list_input(const std::string& name, const TypeProto& type) {
  const auto given = options_.input_lengths.find(name);
  if (given == options_.input_lengths.end())
    throw_unsupported(
        "input '" + name + "' is a sequence; say how many tensors it has, as in --inputLengths=" + name +
        ":3, and it becomes the inputs " + part_name(name, 0) + ", " + part_name(name, 1) + ", ...");
  if (given->second < 0 || given->second > kMostElements)
    throw_input_error("input '" + name + "' is said to have " + std::to_string(given->second) +
                      " tensors; 0 to " + std::to_string(kMostElements) + " are possible");
  if (!type.element || type.element->kind != TypeProto::Kind::Tensor)
    throw_unsupported("input '" + name + "' is a sequence of other things than tensors");
  if (type.element->elem_type == kStringType) throw_unsupported("there are no sequences of strings");
  TypeProto element = *type.element;
  if (element.shape)
    for (Dimension& d : *element.shape) d.param = {};
  Values elements;
  for (size_t i = 0; i < static_cast<size_t>(given->second); ++i)
    elements.push_back(add_tensor_input(part_name(name, i), element));
  return sequences_.add(std::move(elements));
}

ValueId GraphImporter::add_input(const std::string& name, const TypeProto& type) {
  if (type.kind == TypeProto::Kind::Tensor) return add_tensor_input(name, type);
  if (type.kind == TypeProto::Kind::Sequence) return add_list_input(name, type);
  if (type.kind != TypeProto::Kind::Optional || !type.element)
    throw_unsupported("input '" + name + "' is a map or a sparse tensor; there are only dense ones");
  if (type.element->kind != TypeProto::Kind::Tensor) return add_input(name, *type.element);
  const auto given = options_.input_lengths.find(name);
  if (given != options_.input_lengths.end() && given->second != 0 && given->second != 1)
    throw_input_error("input '" + name + "' is an optional, which has 0 or 1 tensors, not " +
                      std::to_string(given->second));
  if (given != options_.input_lengths.end() && given->second == 0) return kNoValue;
  return add_tensor_input(name, *type.element);
}

void GraphImporter::add_inputs(Scope& scope) {
  for (const ValueInfo& input : model_.graph.inputs) {
    const std::string name(input.name);
    if (scope.initializers.contains(input.name)) continue;  // up to IR 3 weights are listed as inputs too
    if (name.empty()) throw_input_error("a graph input has no name");
    if (scope.values.contains(input.name)) throw_input_error("two graph inputs are called '" + name + "'");
    scope.values[input.name] = add_input(name, input.type);
  }
  for (const auto& [name, length] : options_.input_lengths) {
    const auto has_name = [&, n = std::string_view(name)](const ValueInfo& input) {
      return input.name == n &&
             (input.type.kind == TypeProto::Kind::Sequence || input.type.kind == TypeProto::Kind::Optional);
    };
    if (std::none_of(model_.graph.inputs.begin(), model_.graph.inputs.end(), has_name))
      throw_input_error("the model has no sequence or optional '" + name +
                        "' among its inputs, whose length is given");
  }
}

void GraphImporter::add_output(const std::string& name, ValueId id, GraphBuilder& builder) {
  const Graph& graph = builder.graph();
  const auto other = graph.find_value(name);
  const bool copied = graph.value(id).producer == kNoNode || graph.is_output(id);
  const bool renamed = copied && other && graph.is_input(*other);  // whose name callers need
  const std::string given = renamed ? name + "_output" : name;
  if (renamed) log_.output_is_input(name, given);
  builder.add_output(given, id);
  if (builder.is_strings(id)) strings_.insert(given);
}

GraphImporter::Forms GraphImporter::add_outputs(const std::vector<ValueInfo>& outputs, Scope& scope,
                                                const Origin& node, const Forms& wanted) {
  std::map<std::string, int> seen;
  const auto add = [&](const std::string& name, ValueId id) {
    if (seen[name]++) throw_input_error("two graph outputs are called '" + name + "'");
    add_output(name, id, *scope.builder);
  };
  Forms forms;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const std::string name(outputs[o].name);
    if (name.empty()) throw_input_error("a graph output has no name");
    const ValueId id = body_result(outputs[o].name, scope);
    forms.emplace_back();
    if (!Sequences::is_sequence(id)) {
      add(name, id);
      continue;
    }
    SequenceForm form = sequences_.form(*scope.builder, id);
    const size_t leading = form.leading.size();
    if (o < wanted.size() && wanted[o]) form = *wanted[o];
    // Users get all dims of all tensors.
    if (form.kind == SequenceForm::Kind::Ragged)
      form.leading = scope.parent == nullptr ? form.type.dims : constants_of(form.leading);
    const auto values = sequences_.values(*scope.builder, node, id, form);
    if (!values) throw SequenceDiffers{o, sequences_.type(*scope.builder, id), leading};
    if (form.kind == SequenceForm::Kind::Tensors)
      for (size_t i = 0; i < values->size(); ++i) add(part_name(name, i), values->at(i));
    else
      add(name, values->at(0));
    if (form.kind == SequenceForm::Kind::Ragged) add(shapes_name(name), values->at(1));
    if (form.kind != SequenceForm::Kind::Tensors && scope.parent == nullptr)
      log_.output_is_found(name, form.kind == SequenceForm::Kind::Ragged ? shapes_name(name) : std::string());
    forms.back() = std::move(form);
  }
  return forms;
}

}  // namespace lathe::onnx
