// SPDX-License-Identifier: Apache-2.0
//
// SequenceMap: its body in place for each tensor of a list, and where only a run finds how many tensors
// there are a loop, as ONNX defines the operator:
//
//   for i in range(SequenceLength(s)):  results = SequenceInsert(results, body(SequenceAt(s, i)))
#include <deque>
#include <memory>
#include <string>

#include "onnx/graph_importer.h"
#include "onnx/sequence_positions.h"

namespace lathe::onnx {

// The body once for each element of the first sequence; other sequences have as many.
Values GraphImporter::import_sequence_map(NodeImport& node, Scope& scope) {
  const GraphProto* proto = node.graph("body");
  if (!proto) node.fail("its body is missing");
  if (!Sequences::is_sequence(node.in(0))) node.fail("its first input is no sequence");
  if (proto->inputs.size() != node.input_count())
    node.fail("its body takes " + std::to_string(proto->inputs.size()) + " values, there are " +
              std::to_string(node.input_count()));
  for (size_t k = 0; k < node.input_count(); ++k)
    if (Sequences::is_sequence(node.in(k)) && !sequences_.is_list(node.in(k)))
      return map_by_loop(node, *proto, scope);
  const size_t count = sequences_.elements(node.in(0)).size();
  std::vector<Values> lists(proto->outputs.size());
  for (size_t i = 0; i < count; ++i) {
    Scope inner = inner_scope(node, scope);
    inner.prefix = node.name() + "/" + std::to_string(i) + "/";
    for (size_t k = 0; k < node.input_count(); ++k) {
      ValueId value = node.in(k);
      if (Sequences::is_sequence(value)) {
        const Values& elements = sequences_.elements(value);
        if (elements.size() != count)
          node.fail("its sequences have " + std::to_string(count) + " and " +
                    std::to_string(elements.size()) + " tensors");
        value = elements[i];
      }
      inner.values[proto->inputs[k].name] = value;
    }
    const Values results = import_inline(*proto, inner);
    for (size_t k = 0; k < results.size(); ++k) {
      if (Sequences::is_sequence(results[k])) node.fail("its body gives a sequence");
      if (node.builder().is_strings(results[k])) throw_unsupported("there are no sequences of strings");
      lists[k].push_back(results[k]);
    }
  }
  Values results;
  for (Values& list : lists) results.push_back(sequences_.add(std::move(list)));
  return results;
}

// The values of the node have names of their own in the scope of the loop: its body may use those in the
// model.
Values GraphImporter::map_by_loop(NodeImport& node, const GraphProto& proto, Scope& scope) {
  std::deque<std::string> names;
  const auto named = [&](std::string_view what, size_t i) {
    names.push_back("map." + std::string(what) + std::to_string(i));
    return std::string_view(names.back());
  };
  Scope around = inner_scope(node, scope);
  around.prefix = scope.prefix;
  GraphProto body;
  body.name = proto.name;
  body.initializers = proto.initializers;
  body.sparse_initializers = proto.sparse_initializers;
  body.inputs = {{"map.i", {}}, {"map.condition", {}}};
  body.outputs = {{"map.continues", {}}};
  body.nodes.push_back({.op_type = "Identity", .inputs = {"map.condition"}, .outputs = {"map.continues"}});
  for (size_t k = 0; k < node.input_count(); ++k) {
    const std::string_view operand = named("operand", k);
    around.values[operand] = node.in(k);
    NodeProto read{.op_type = "Identity", .inputs = {operand}, .outputs = {proto.inputs[k].name}};
    if (Sequences::is_sequence(node.in(k))) {
      read.op_type = "SequenceAt";
      read.inputs.push_back("map.i");
    }
    body.nodes.push_back(std::move(read));
  }
  body.nodes.insert(body.nodes.end(), proto.nodes.begin(), proto.nodes.end());
  const ValueId first = node.in(0);
  const ValueId count =
      sequences_.is_list(first)
          ? node.constant(Tensor::scalar_i64(static_cast<int64_t>(sequences_.elements(first).size())))
          : dim_of(node,
                   sequences_.ragged(first) ? sequences_.ragged(first)->shapes : sequences_.stacked(first),
                   0);
  NodeProto loop{.op_type = "Loop"};
  Values operands = {count, kNoValue};
  for (size_t k = 0; k < proto.outputs.size(); ++k) {
    const std::string_view before = named("before", k), after = named("after", k);
    TypeProto type{.kind = TypeProto::Kind::Sequence};
    type.element = std::make_shared<TypeProto>(proto.outputs[k].type);
    body.inputs.push_back({before, type});
    body.outputs.push_back({after, type});
    body.nodes.push_back(
        {.op_type = "SequenceInsert", .inputs = {before, proto.outputs[k].name}, .outputs = {after}});
    loop.outputs.push_back(after);
    operands.push_back(sequences_.add(Values{}));
  }
  AttributeProto attribute{.name = "body", .type = AttributeProto::Type::Graph};
  attribute.g = std::make_shared<GraphProto>(std::move(body));
  loop.attributes.push_back(std::move(attribute));
  NodeImport made({loop, node.name(), node.opset(), std::move(operands), scope.attributes, tensors_,
                   *scope.builder, &log_});
  return import_repetition(made, around);
}

}  // namespace lathe::onnx
