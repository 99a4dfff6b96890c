// SPDX-License-Identifier: Apache-2.0
//
// Loops that carry sequences and do anything with them: the sequence is a tensor of slices, or where an
// iteration puts in a tensor of another shape two tensors (ragged_sequence.h), which another iteration
// finds longer or shorter. Each iteration copies them, so a body that only appends tensors of one shape is
// imported in another way (import_appending_loop.cpp).
//
// The form of a sequence must be the same in all iterations. It is that of the first tensors, and where the
// body then gives tensors that have no room in it, the body is imported again for a form that has more.
#include <algorithm>

#include "onnx/graph_importer.h"
#include "onnx/loop_parts.h"
#include "ops/control_flow.h"

namespace lathe::onnx {

Values GraphImporter::import_loop_of_sequences(NodeImport& node, Scope& scope) {
  const size_t problems = problems_.size();
  try {
    return make_loop_of_sequences(node, scope);
  } catch (const UnsupportedError&) {
    // What is known of its sequences may have been found when values that its body captures had other shapes.
    const auto is_of_loop = [&](const auto& entry) { return entry.first.starts_with(node.name() + "/"); };
    const bool was_reused =
        std::any_of(first_elements_.begin(), first_elements_.end(),
                    [&](const auto& entry) { return is_of_loop(entry) && entry.second.is_reused; });
    if (!was_reused) throw;
    std::erase_if(first_elements_, is_of_loop);
    problems_.resize(problems);
    return make_loop_of_sequences(node, scope);
  }
}

Values GraphImporter::make_loop_of_sequences(NodeImport& node, Scope& scope) {
  const size_t problems = problems_.size(), outputs = node.graph("body")->outputs.size();
  while (true) {
    Forms forms(outputs);
    for (size_t i = kLoopOwnInputs; i < node.input_count(); ++i)
      if (Sequences::is_sequence(node.in_or_none(i)))
        forms[i - 1] = carried_form(node, scope, i - kLoopOwnInputs);
    try {
      return make_loop_of_forms(node, scope, forms);
    } catch (const SequenceDiffers& differs) {
      const std::string key = node.name() + "/" + std::to_string(differs.output - 1);
      ragged_forms_[key] = wider(*forms[differs.output], differs.type, differs.leading);
      changing_dims_.erase(node.name());  // of other values
      problems_.resize(problems);
    }
  }
}

Values GraphImporter::make_loop_of_forms(NodeImport& node, Scope& scope, const Forms& forms) {
  const GraphProto& proto = *node.graph("body");
  const Values given = loop_operands(node);
  Values operands(given.begin(), given.begin() + kLoopOwnInputs);
  InputNames names = {std::string(proto.inputs[0].name), std::string(proto.inputs[1].name)};
  for (size_t i = kLoopOwnInputs; i < given.size(); ++i) {
    const std::string name(proto.inputs[i].name);
    if (!forms[i - 1]) {
      no_strings(node, i);
      operands.push_back(given[i]);
      names.push_back(name);
      continue;
    }
    const auto values = sequences_.values(node.builder(), node.origin(), given[i], *forms[i - 1]);
    if (!values) {
      const SequenceForm own = sequences_.form(node.builder(), given[i]);
      throw SequenceDiffers{i - 1, own.type, own.leading.size()};
    }
    for (size_t v = 0; v < values->size(); ++v) {
      operands.push_back(values->at(v));
      names.push_back(v == 0 ? name : name + ".shapes");
    }
  }
  const auto as_carried = [&](const Values& values) {
    Values carried;
    auto next = values.begin();
    for (size_t i = 0; i + kLoopOwnInputs < given.size(); ++i) {
      const auto& form = forms[1 + i];
      const auto end = next + static_cast<std::ptrdiff_t>(form ? form->values() : 1);
      carried.push_back(form ? sequences_.add(*form, Values(next, end)) : *next);
      next = end;
    }
    carried.insert(carried.end(), next, values.end());  // what is scanned
    return carried;
  };
  const auto fill = [&](BodyBuilder& body) {
    const size_t problems = problems_.size();
    const auto first = body.own_inputs.begin() + kLoopOwnInputs;
    Values bound(body.own_inputs.begin(), first);
    for (const ValueId id : as_carried(Values(first, body.own_inputs.end()))) bound.push_back(id);
    const Forms results = import_body(proto, node, scope, body, bound, forms);
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].has_value() != forms[i].has_value())
        throw_unsupported("its body takes and gives sequences at different places");
    if (problems_.size() != problems) throw_unsupported("a node of its body is not supported");
  };
  return as_carried(add_with_bodies(
      node, make_loop(node.builder(), node.name(), operands, names, fill, changing_dims_[node.name()])));
}

SequenceForm GraphImporter::carried_form(NodeImport& node, Scope& scope, size_t carried) {
  const std::string key = node.name() + "/" + std::to_string(carried);
  if (const auto found = ragged_forms_.find(key); found != ragged_forms_.end()) return found->second;
  const SequenceForm own = sequences_.form(node.builder(), node.in(kLoopOwnInputs + carried));
  if (!own.type.is_empty()) return form_of(own.type, own.leading.size());
  std::vector<Shape> operands;
  for (const ValueId id : node.inputs())
    if (id >= 0) operands.push_back(node.shape_of(id));
  FirstElement& first = first_elements_[key];
  first.is_reused = !first.type.is_empty() && first.operands == operands;
  if (!first.is_reused) {
    first = {operands, {}, false};
    SequenceType found = type_of_first(node, scope, carried);
    first.type = std::move(found);
  }
  if (first.type.is_empty())
    throw_unsupported("nothing says of which tensors the sequence '" +
                      std::string(node.graph("body")->inputs[kLoopOwnInputs + carried].name) +
                      "' of its body is, which is empty in the first iteration");
  return form_of(first.type);
}

// What the body puts into the empty sequence in a first iteration, else what the model says of it.
SequenceType GraphImporter::type_of_first(NodeImport& node, Scope& scope, size_t carried) {
  const GraphProto& proto = *node.graph("body");
  const size_t problems = problems_.size();
  try {
    BodyBuilder body;
    body.add_input(DType::Int64, {}, "iteration");
    body.add_input(DType::Bool, {}, "condition");
    Values bound = body.own_inputs;
    const Values operands = loop_operands(node);
    const auto input = [&](ValueId id) {
      const Value& value = node.value_of(id);
      return body.add_input(value.dtype, value.shape, value.name);
    };
    for (size_t i = kLoopOwnInputs; i < operands.size(); ++i)
      if (!Sequences::is_sequence(operands[i]))
        bound.push_back(input(operands[i]));
      else if (!sequences_.is_list(operands[i]))
        bound.push_back(sequences_.map(operands[i], input));
      else
        bound.push_back(
            sequences_.map(operands[i], [&](ValueId id) { return body.capture(*scope.builder, id); }));
    const Forms forms = import_body(proto, node, scope, body, bound);
    problems_.resize(problems);
    if (const auto& form = forms[1 + carried]; form && !form->type.is_empty()) {
      SequenceType type = form->type;
      for (auto& dim : type.dims)
        if (dim && is_data_dependent({*dim})) dim.reset();  // another iteration finds another one
      return type;
    }
  } catch (const Error&) {  // it reads what is not there yet
    problems_.resize(problems);
  }
  const TypeProto& declared = proto.inputs[kLoopOwnInputs + carried].type;
  if (declared.kind != TypeProto::Kind::Sequence || !declared.element || !declared.element->shape) return {};
  SequenceType type{dtype_from_onnx(declared.element->elem_type, "a sequence of its body"), {}, {}};
  for (const Dimension& dim : *declared.element->shape)
    type.dims.push_back(dim.value && *dim.value >= 0 ? std::optional<Dim>(*dim.value) : std::nullopt);
  return type;
}

}  // namespace lathe::onnx
