// SPDX-License-Identifier: Apache-2.0
//
// Loops that carry sequences and do anything with them: the sequence is a tensor of slices that another
// iteration finds longer or shorter. Each iteration copies it, so a body that only appends is imported in
// another way (import_appending_loop.cpp).
#include <algorithm>

#include "onnx/graph_importer.h"
#include "onnx/loop_parts.h"
#include "ops/control_flow.h"

namespace lathe::onnx {

Values GraphImporter::import_loop_of_slices(NodeImport& node, Scope& scope) {
  const size_t problems = problems_.size();
  try {
    return make_loop_of_slices(node, scope);
  } catch (const UnsupportedError&) {
    // What is known of its sequences may have been found when values that its body captures had other shapes.
    const auto is_of_loop = [&](const auto& entry) { return entry.first.starts_with(node.name() + "/"); };
    const bool was_reused =
        std::any_of(first_elements_.begin(), first_elements_.end(),
                    [&](const auto& entry) { return is_of_loop(entry) && entry.second.is_reused; });
    if (!was_reused) throw;
    std::erase_if(first_elements_, is_of_loop);
    problems_.resize(problems);
    return make_loop_of_slices(node, scope);
  }
}

Values GraphImporter::make_loop_of_slices(NodeImport& node, Scope& scope) {
  const GraphProto& proto = *node.graph("body");
  Values operands = loop_operands(node);
  std::vector<bool> is_slices(operands.size());
  for (size_t i = kLoopOwnInputs; i < operands.size(); ++i) {
    is_slices[i] = Sequences::is_sequence(operands[i]);
    if (is_slices[i])
      operands[i] = first_slices(node, scope, i - kLoopOwnInputs);
    else
      no_strings(node, i);
  }
  const auto fill = [&](BodyBuilder& body) {
    const size_t problems = problems_.size();
    Values bound = body.own_inputs;
    for (size_t i = 0; i < bound.size(); ++i)
      if (is_slices[i]) bound[i] = sequences_.add_slices(bound[i]);
    const Lengths lengths = import_body(proto, node, scope, body, bound, SequenceForm::Slices);
    for (size_t i = 0; i < lengths.size(); ++i) {
      const bool is_carried = i > 0 && i + 1 < is_slices.size();  // behind the condition
      if (lengths[i].has_value() != (is_carried && is_slices[i + 1]))
        throw_unsupported("its body takes and gives sequences at different places");
    }
    if (problems_.size() != problems) throw_unsupported("a node of its body is not supported");
  };
  Values results = add_with_bodies(node, make_loop(node.builder(), node.name(), operands, input_names(proto),
                                                   fill, changing_dims_[node.name()]));
  for (size_t i = kLoopOwnInputs; i < is_slices.size(); ++i)
    if (is_slices[i]) results[i - kLoopOwnInputs] = sequences_.add_slices(results[i - kLoopOwnInputs]);
  return results;
}

ValueId GraphImporter::first_slices(NodeImport& node, Scope& scope, size_t carried) {
  const ValueId sequence = node.in(kLoopOwnInputs + carried);
  if (sequences_.stacked(sequence) != kNoValue || !sequences_.elements(sequence).empty())
    return sequences_.as_slices(node.builder(), node.origin(), sequence);
  std::vector<Shape> operands;
  for (const ValueId id : node.inputs())
    if (id >= 0) operands.push_back(node.shape_of(id));
  FirstElement& first = first_elements_[node.name() + "/" + std::to_string(carried)];
  first.is_reused = first.type && first.operands == operands;
  if (!first.is_reused) {
    first = {operands, {}, false};
    std::optional<ElementType> found = type_of_first(node, scope, carried);
    first.type = std::move(found);
  }
  if (!first.type)
    throw_unsupported("nothing says of which tensors the sequence '" +
                      std::string(node.graph("body")->inputs[kLoopOwnInputs + carried].name) +
                      "' of its body is, which is empty in the first iteration");
  Shape none = first.type->shape;
  none.insert(none.begin(), 0);
  return node.expand(node.scalar(0, first.type->dtype), none, "none");
}

// What the body puts into the empty sequence in a first iteration, else what the model says of it.
std::optional<GraphImporter::ElementType> GraphImporter::type_of_first(NodeImport& node, Scope& scope,
                                                                       size_t carried) {
  const GraphProto& proto = *node.graph("body");
  const size_t problems = problems_.size();
  const auto is_known = [](const Shape& shape) {
    return std::all_of(shape.begin(), shape.end(),
                       [](const Dim& dim) { return dim.data_dependent_names().empty(); });
  };
  try {
    BodyBuilder body;
    body.add_input(DType::Int64, {}, "iteration");
    body.add_input(DType::Bool, {}, "condition");
    Values bound = body.own_inputs;
    const Values operands = loop_operands(node);
    for (size_t i = kLoopOwnInputs; i < operands.size(); ++i) {
      if (Sequences::is_sequence(operands[i]) && sequences_.stacked(operands[i]) == kNoValue) {
        Values elements = sequences_.elements(operands[i]);
        for (ValueId& element : elements) element = body.capture(*scope.builder, element);
        bound.push_back(sequences_.add(std::move(elements)));
        continue;
      }
      const bool is_slices = Sequences::is_sequence(operands[i]);
      const Value& value = node.value_of(is_slices ? sequences_.stacked(operands[i]) : operands[i]);
      const ValueId input = body.add_input(value.dtype, value.shape, value.name);
      bound.push_back(is_slices ? sequences_.add_slices(input) : input);
    }
    const Lengths lengths = import_body(proto, node, scope, body, bound, SequenceForm::Lists);
    problems_.resize(problems);
    size_t place = 0;
    for (size_t i = 0; i < 1 + carried; ++i) place += lengths[i] && *lengths[i] != kSlices ? *lengths[i] : 1;
    if (const auto& length = lengths[1 + carried]; length && *length > 0) {
      const Value& first = body.graph.value(body.graph.outputs()[place]);
      ElementType type{first.dtype, first.shape};
      if (*length == kSlices) type.shape.erase(type.shape.begin());
      if (is_known(type.shape)) return type;
    }
  } catch (const Error&) {  // it reads what is not there yet
    problems_.resize(problems);
  }
  const TypeProto& declared = proto.inputs[kLoopOwnInputs + carried].type;
  if (declared.kind != TypeProto::Kind::Sequence || !declared.element || !declared.element->shape)
    return std::nullopt;
  ElementType type{dtype_from_onnx(declared.element->elem_type, "a sequence of its body"), {}};
  for (const Dimension& dim : *declared.element->shape) {
    if (!dim.value || *dim.value < 0) return std::nullopt;
    type.shape.push_back(*dim.value);
  }
  return type;
}

}  // namespace lathe::onnx
