// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan. What is known when the model is imported leaves no trace: the selected branch, and the
// iterations of a short loop whose count is constant, are imported in place. Everything else becomes an
// operator with bodies. A body is a graph of its own; what it reads of the graphs around it becomes an input
// of the body and an operand of its operator, level by level.
//
// A loop's body is imported for the types of the values that it carries. Where a dim is another one after an
// iteration than before it, the body is imported again with a symbol in the dim's place, until nothing
// changes.
#include <algorithm>
#include <cstdint>
#include <set>

#include "onnx/bodies.h"
#include "onnx/graph_importer.h"
#include "onnx/loop_parts.h"
#include "ops/control_flow.h"

namespace lathe::onnx {

namespace {

constexpr int64_t kUnrolledNodes =
    512;  // a loop of constant count that has no more is imported as its iterations
constexpr int64_t kUnrolledIterations = 32;

// The branches of an If give sequences in different forms; those in which both can give them.
struct ChoiceDiffers {
  std::vector<std::optional<SequenceForm>> forms;
};

bool is_constant_true(const GraphProto& body, std::string_view name, TensorSource& tensors) {
  const auto is_true = [&](const TensorProto& tensor) {
    const Tensor value = tensors.load(tensor);
    return value.size() == 1 && value.to_int64s()[0] != 0;
  };
  for (const TensorProto& tensor : body.initializers)
    if (tensor.name == name) return is_true(tensor);
  for (const NodeProto& node : body.nodes) {
    if (node.outputs.empty() || node.outputs[0] != name) continue;
    if (node.op_type == "Identity" && node.inputs.size() == 1)
      return is_constant_true(body, node.inputs[0], tensors);
    if (node.op_type != "Constant") return false;
    for (const AttributeProto& a : node.attributes)
      if (a.name == "value" && a.t) return is_true(*a.t);
    return false;
  }
  return false;
}

// The value that an output passes on through Identity nodes.
std::string_view passed_on(const GraphProto& body, std::string_view name) {
  for (const NodeProto& node : body.nodes)
    if (node.op_type == "Identity" && node.inputs.size() == 1 && !node.outputs.empty() &&
        node.outputs[0] == name)
      return passed_on(body, node.inputs[0]);
  return name;
}

// Only the trip count ends the loop: the condition stays what it was, which was true.
bool always_continues(const GraphProto& body, TensorSource& tensors) {
  if (body.outputs.empty() || body.inputs.size() < 2) return false;
  const std::string_view condition = body.outputs[0].name;
  return passed_on(body, condition) == body.inputs[1].name || is_constant_true(body, condition, tensors);
}

}  // namespace

// An input that there is, and that the operator's body can take.
void no_strings(const NodeImport& node, size_t input) {
  if (node.builder().is_strings(node.in(input)))
    throw_unsupported("its body takes strings from one iteration to the next");
}

Values loop_operands(const NodeImport& node) {
  Values operands = node.inputs();
  operands.resize(std::max(operands.size(), kLoopOwnInputs), kNoValue);
  return operands;
}

InputNames input_names(const GraphProto& body) {
  InputNames names;
  for (const ValueInfo& input : body.inputs) names.emplace_back(input.name);
  return names;
}

Values add_with_bodies(NodeImport& node, WithBodies made) {
  return node.add_multi(std::move(made.op), std::move(made.operands), made.outputs);
}

GraphImporter::Scope GraphImporter::inner_scope(NodeImport& node, Scope& scope) const {
  Scope inner;
  inner.parent = &scope;
  inner.builder = scope.builder;
  inner.prefix = node.name() + "/";
  inner.opsets = scope.opsets;
  inner.attributes = scope.attributes;
  inner.depth = scope.depth + 1;
  return inner;
}

ValueId GraphImporter::body_result(std::string_view name, Scope& scope) {
  const ValueId id = look_up(name, scope);
  if (id == kPoison) throw_unsupported("a node of its body is not supported");
  if (id == kNoValue) throw_unsupported("its output '" + std::string(name) + "' is an absent optional value");
  return id;
}

Values GraphImporter::import_inline(const GraphProto& graph, Scope& inner) {
  add_initializers(graph, inner);
  import_nodes(graph.nodes, output_names(graph), inner);
  Values results;
  for (const ValueInfo& output : graph.outputs) {
    results.push_back(body_result(output.name, inner));
  }
  return results;
}

ValueId GraphImporter::capture(ValueId outer, Scope& scope) {
  if (outer == kPoison || outer == kNoValue) return outer;
  if (Sequences::is_sequence(outer))
    return sequences_.map(outer, [&](ValueId value) { return capture(value, scope); });
  const ValueId inner = scope.body->capture(*scope.parent->builder, outer);
  if (scope.parent->builder->is_strings(outer)) scope.builder->mark_strings(inner);
  return inner;
}

GraphImporter::Forms GraphImporter::import_body(const GraphProto& proto, NodeImport& node, Scope& scope,
                                                BodyBuilder& body, const Values& bound, const Forms& wanted) {
  Scope inner = inner_scope(node, scope);
  inner.builder = &body.builder;
  inner.body = &body;
  body.builder.editor().set_name(std::string(proto.name));
  for (size_t i = 0; i < bound.size(); ++i)
    if (!inner.values.emplace(proto.inputs[i].name, bound[i]).second)
      node.fail("two inputs of its body are called '" + std::string(proto.inputs[i].name) + "'");
  add_initializers(proto, inner);
  import_nodes(proto.nodes, output_names(proto), inner);
  for (const std::string_view name : output_names(proto))
    if (const ValueId id = body_result(name, inner);
        !Sequences::is_sequence(id) && body.builder.is_strings(id))
      throw_unsupported(
          "its body gives strings, which is supported only where the condition or count is constant");
  Forms forms = add_outputs(proto.outputs, inner, node.origin(), wanted);
  body.builder.editor().remove_dead_nodes();
  return forms;
}

// The same for a body that is not kept when a node of it is not supported.
void GraphImporter::import_whole_body(const GraphProto& proto, NodeImport& node, Scope& scope,
                                      BodyBuilder& body) {
  const size_t problems = problems_.size();
  const Forms forms = import_body(proto, node, scope, body, body.own_inputs);
  if (std::any_of(forms.begin(), forms.end(), [](const auto& form) { return form.has_value(); }))
    throw_unsupported(
        "its body gives a sequence that it does not take, which is supported only where the number of "
        "iterations is a small constant");
  if (problems_.size() != problems) throw_unsupported("a node of its body is not supported");
}

Values GraphImporter::import_if(NodeImport& node, Scope& scope) {
  if (Sequences::is_sequence(node.in(0))) node.fail("its condition is a sequence");
  const auto condition = node.known_ints(0);
  if (!condition || condition->size() != 1) return import_choice(node, scope);
  const GraphProto* branch = node.graph(condition->front() ? "then_branch" : "else_branch");
  if (!branch) node.fail("a branch is missing");
  Scope inner = inner_scope(node, scope);
  return import_inline(*branch, inner);
}

Values GraphImporter::import_choice(NodeImport& node, Scope& scope) {
  const GraphProto *then_proto = node.graph("then_branch"), *else_proto = node.graph("else_branch");
  if (!then_proto || !else_proto) node.fail("a branch is missing");
  if (then_proto->outputs.size() != else_proto->outputs.size())
    node.fail("its branches give " + std::to_string(then_proto->outputs.size()) + " and " +
              std::to_string(else_proto->outputs.size()) + " values");
  const size_t problems = problems_.size();
  Forms& wanted = choice_forms_[node.name()];
  while (true) {
    try {
      return import_choice_of(node, scope, wanted);
    } catch (ChoiceDiffers& differs) {
      wanted = std::move(differs.forms);
    } catch (const SequenceDiffers& differs) {
      wanted[differs.output] = wider(*wanted[differs.output], differs.type, differs.leading);
    }
    problems_.resize(problems);
  }
}

Values GraphImporter::import_choice_of(NodeImport& node, Scope& scope, const Forms& wanted) {
  Forms forms;
  const auto fill_then = [&](BodyBuilder& body) {
    forms = import_body(*node.graph("then_branch"), node, scope, body, {}, wanted);
  };
  const auto fill_else = [&](BodyBuilder& body) {
    const Forms others = import_body(*node.graph("else_branch"), node, scope, body, {}, wanted);
    if (others == forms) return;
    ChoiceDiffers differs{forms};
    for (size_t i = 0; i < forms.size(); ++i) {
      if (forms[i].has_value() != others[i].has_value())
        node.fail("output " + std::to_string(i) + " is a sequence in one of its branches alone");
      if (forms[i] != others[i]) differs.forms[i] = form_of_both(*forms[i], *others[i]);
    }
    throw differs;
  };
  const Values parts = add_with_bodies(node, make_if(node.builder(), node.in(0), fill_then, fill_else));
  Values results;
  auto next = parts.begin();
  for (const auto& form : forms) {
    const auto end = next + static_cast<std::ptrdiff_t>(form ? form->values() : 1);
    results.push_back(form ? sequences_.add(*form, Values(next, end)) : *next);
    next = end;
  }
  return results;
}

Values GraphImporter::import_loop(NodeImport& node, Scope& scope) {
  const GraphProto* proto = node.graph("body");
  if (!proto) node.fail("its body is missing");
  const size_t carried = loop_operands(node).size() - kLoopOwnInputs;
  if (proto->inputs.size() != carried + 2 || proto->outputs.size() < carried + 1)
    node.fail("its body takes " + std::to_string(proto->inputs.size()) + " values and gives " +
              std::to_string(proto->outputs.size()) + "; with " + std::to_string(carried) +
              " carried values it takes " + std::to_string(carried + 2) + " and gives at least " +
              std::to_string(carried + 1));
  if (auto results = unroll_loop(node, *proto, scope)) return *results;
  return import_repetition(node, scope);
}

std::optional<Values> GraphImporter::unroll_loop(NodeImport& node, const GraphProto& proto, Scope& scope) {
  for (size_t i = 0; i < 2; ++i)
    if (node.has(i) && Sequences::is_sequence(node.in(i)))
      node.fail("input " + std::to_string(i) + " is a sequence");
  const auto trips = node.known_ints(0), condition = node.known_ints(1);
  if (!trips || trips->size() != 1 || (node.has(1) && !(condition && condition->size() == 1)))
    return std::nullopt;
  const bool starts = !node.has(1) || condition->front() != 0;
  const int64_t count = starts ? std::max<int64_t>(0, trips->front()) : 0;
  const auto nodes = static_cast<int64_t>(proto.nodes.size());
  Values values = loop_operands(node);
  values.erase(values.begin(), values.begin() + kLoopOwnInputs);
  const size_t carried = values.size(), scanned = proto.outputs.size() - 1 - carried;
  if (count > kUnrolledIterations || count * nodes > kUnrolledNodes || !always_continues(proto, tensors_) ||
      (count == 0 && scanned > 0))
    return std::nullopt;
  std::vector<Values> slices(scanned);
  for (int64_t i = 0; i < count; ++i) {
    Scope inner = inner_scope(node, scope);
    inner.prefix = node.name() + "/" + std::to_string(i) + "/";
    inner.values[proto.inputs[0].name] = node.constant(Tensor::scalar_i64(i), "iteration");
    inner.values[proto.inputs[1].name] =
        node.constant(Tensor::from_doubles(DType::Bool, {}, std::vector<double>{1}), "condition");
    for (size_t v = 0; v < carried; ++v) inner.values[proto.inputs[2 + v].name] = values[v];
    const Values results = import_inline(proto, inner);
    for (size_t v = 0; v < carried; ++v) values[v] = results[1 + v];
    for (size_t s = 0; s < scanned; ++s) {
      if (Sequences::is_sequence(results[1 + carried + s])) throw_unsupported("it scans sequences");
      if (node.builder().is_strings(results[1 + carried + s])) throw_unsupported("it scans strings");
      Shape shape = node.shape_of(results[1 + carried + s]);
      shape.insert(shape.begin(), 1);
      slices[s].push_back(node.reshape(results[1 + carried + s], shape));
    }
  }
  for (const Values& parts : slices) values.push_back(node.add(Concat{.axis = 0}, parts));
  return values;
}

Values GraphImporter::import_repetition(NodeImport& node, Scope& scope) {
  if (std::any_of(node.inputs().begin(), node.inputs().end(), Sequences::is_sequence)) {
    auto results = import_appending_loop(node, scope);
    return results ? *std::move(results) : import_loop_of_sequences(node, scope);
  }
  const GraphProto& proto = *node.graph("body");
  for (size_t i = kLoopOwnInputs; i < node.input_count(); ++i)
    no_strings(node, i);  // carried values are there
  return add_with_bodies(node, make_loop(
                                   node.builder(), node.name(), loop_operands(node), input_names(proto),
                                   [&](BodyBuilder& body) { import_whole_body(proto, node, scope, body); },
                                   changing_dims_[node.name()]));
}

Values GraphImporter::import_scan(NodeImport& node, Scope& scope) {
  if (node.opset() < 9) return import_batched_scan(node, scope);
  const GraphProto* proto = node.graph("body");
  if (!proto) node.fail("its body is missing");
  const int64_t count = node.required_integer("num_scan_inputs");
  const auto operands = static_cast<int64_t>(node.input_count());
  if (count < 1 || count > operands || static_cast<int64_t>(proto->inputs.size()) != operands ||
      static_cast<int64_t>(proto->outputs.size()) < operands - count)
    node.fail("num_scan_inputs is " + std::to_string(count) + " of " + std::to_string(operands) +
              " inputs, and its body takes " + std::to_string(proto->inputs.size()) + " values and gives " +
              std::to_string(proto->outputs.size()));
  const auto scanned = static_cast<size_t>(count), states = static_cast<size_t>(operands - count),
             outputs = proto->outputs.size() - states;
  Scan op{.states = operands - count,
          .input_axes = node.ints("scan_input_axes").value_or(Ints(scanned, 0)),
          .output_axes = node.ints("scan_output_axes").value_or(Ints(outputs, 0)),
          .input_reversed = node.ints("scan_input_directions").value_or(Ints(scanned, 0)),
          .output_reversed = node.ints("scan_output_directions").value_or(Ints(outputs, 0))};
  if (op.input_axes.size() != scanned || op.output_axes.size() != outputs ||
      op.input_reversed.size() != scanned || op.output_reversed.size() != outputs)
    node.fail("its lists of axes and directions do not have one entry per scanned value");
  if (std::any_of(node.inputs().begin(), node.inputs().end(), Sequences::is_sequence))
    throw_unsupported("its inputs are sequences");
  for (size_t i = 0; i < node.input_count(); ++i) no_strings(node, i);
  return add_with_bodies(node,
                         make_scan(node.builder(), std::move(op), node.inputs(), input_names(*proto),
                                   [&](BodyBuilder& body) { import_whole_body(*proto, node, scope, body); }));
}

// Opset 8 scans axis 1 of each item of a batch: a scan over the batch without states, whose body is the scan.
Values GraphImporter::import_batched_scan(NodeImport& node, Scope& scope) {
  const GraphProto* proto = node.graph("body");
  if (!proto) node.fail("its body is missing");
  if (node.has(0))
    throw_unsupported(
        "lengths of its sequences are not supported; convert the model to opset 9 with "
        "onnx.version_converter, and mask what is behind an end");
  if (node.input_count() < 2)
    node.fail("it has " + std::to_string(node.input_count()) + " inputs, expected lengths and values");
  Values operands(node.inputs().begin() + 1, node.inputs().end());
  const int64_t count = node.required_integer("num_scan_inputs");
  const auto all = static_cast<int64_t>(operands.size());
  if (count < 1 || count > all || static_cast<int64_t>(proto->inputs.size()) != all ||
      static_cast<int64_t>(proto->outputs.size()) < all - count)
    node.fail("num_scan_inputs is " + std::to_string(count) + " of " + std::to_string(all) +
              " inputs, and its body takes " + std::to_string(proto->inputs.size()) + " values and gives " +
              std::to_string(proto->outputs.size()));
  for (size_t i = 0; i < operands.size(); ++i) {
    if (Sequences::is_sequence(node.in(i + 1))) throw_unsupported("its inputs are sequences");
    no_strings(node, i + 1);
    if (node.rank(i + 1) < (static_cast<int64_t>(i) < all - count ? 1 : 2))
      node.fail("input " + std::to_string(i + 1) + " has no dims for a batch and its steps");
  }
  const auto scanned = static_cast<size_t>(count),
             outputs = proto->outputs.size() - static_cast<size_t>(all - count);
  const Scan steps{.states = all - count,
                   .input_axes = Ints(scanned, 0),
                   .output_axes = Ints(outputs, 0),
                   .input_reversed = node.ints("directions").value_or(Ints(scanned, 0)),
                   .output_reversed = Ints(outputs, 0)};
  if (steps.input_reversed.size() != scanned)
    node.fail("its list of directions does not have one entry per scanned value");
  const Scan items{.input_axes = Ints(operands.size(), 0),
                   .output_axes = Ints(proto->outputs.size(), 0),
                   .input_reversed = Ints(operands.size(), 0),
                   .output_reversed = Ints(proto->outputs.size(), 0)};
  const auto fill = [&](BodyBuilder& item) {
    Scope inner = inner_scope(node, scope);
    inner.builder = &item.builder;
    inner.body = &item;
    const WithBodies made =
        make_scan(item.builder, steps, item.own_inputs, input_names(*proto),
                  [&](BodyBuilder& body) { import_whole_body(*proto, node, inner, body); });
    const Values results = item.builder.add(node.name() + "/item", made.op, made.operands,
                                            {{node.name(), std::string(node.op_type())}}, made.outputs);
    for (size_t i = 0; i < results.size(); ++i)
      item.builder.add_output(std::string(proto->outputs[i].name), results[i]);
  };
  return add_with_bodies(node, make_scan(node.builder(), items, operands, input_names(*proto), fill));
}

}  // namespace lathe::onnx
