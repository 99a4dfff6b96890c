// SPDX-License-Identifier: Apache-2.0
//
// Loops that collect results in sequences, as scripted PyTorch writes them:
//
//   results = []
//   while ...: results.append(x)          the body: results = SequenceInsert(results, x)
//   torch.stack(results)                  behind it: ConcatFromSequence
//
// What each iteration appends becomes a scanned output of the loop, and the sequence its slices. A body
// that does more with the sequence, or appends tensors of different shapes, carries it from one iteration
// to the next (import_loop_of_sequences.cpp).
#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <variant>

#include "onnx/graph_importer.h"
#include "onnx/loop_parts.h"
#include "onnx/node_order.h"
#include "ops/control_flow.h"

namespace lathe::onnx {
namespace {

// How a body appends to one of its carried values.
struct Append {
  size_t carried = 0;        // its number
  size_t node = 0;           // of the body: SequenceInsert
  std::string_view element;  // what it appends
};

std::optional<Append> find_append(const GraphProto& body, size_t carried) {
  const std::string_view before = body.inputs[2 + carried].name, after = body.outputs[1 + carried].name;
  const auto found = std::find_if(body.nodes.begin(), body.nodes.end(), [&](const NodeProto& node) {
    return !node.outputs.empty() && node.outputs[0] == after;
  });
  if (found == body.nodes.end() || !is_onnx_domain(found->domain) || found->op_type != "SequenceInsert" ||
      found->inputs.size() < 2 || found->inputs[0] != before ||
      (found->inputs.size() > 2 && !found->inputs[2].empty()))
    return std::nullopt;
  const auto reads_it = [&](const NodeProto& node) {
    const std::set<std::string_view> names = names_read(node);
    return &node != &*found && (names.contains(before) || names.contains(after));
  };
  const auto gives_it = [&](const ValueInfo& output) {
    return output.name == before || (output.name == after && &output != &body.outputs[1 + carried]);
  };
  if (std::any_of(body.nodes.begin(), body.nodes.end(), reads_it) ||
      std::any_of(body.outputs.begin(), body.outputs.end(), gives_it))
    return std::nullopt;
  return Append{carried, static_cast<size_t>(found - body.nodes.begin()), found->inputs[1]};
}

// The body without these carried values, and with what it appended to them as further scanned outputs.
// `names` keeps the names of those.
GraphProto scanning_body(const GraphProto& body, const std::vector<Append>& appends,
                         std::deque<std::string>& names) {
  GraphProto scanning = body;
  for (auto append = appends.rbegin(); append != appends.rend(); ++append) {
    scanning.inputs.erase(scanning.inputs.begin() + static_cast<std::ptrdiff_t>(2 + append->carried));
    scanning.outputs.erase(scanning.outputs.begin() + static_cast<std::ptrdiff_t>(1 + append->carried));
  }
  for (const Append& append : appends) {
    // The same node under another name, so that what it gives is named like no other output.
    NodeProto& node = scanning.nodes[append.node];
    names.push_back(std::string(body.outputs[1 + append.carried].name) + ".appended");
    node.op_type = "Identity";
    node.inputs = {append.element};
    node.outputs = {names.back()};
    ValueInfo output = body.outputs[1 + append.carried];
    output.name = names.back();
    scanning.outputs.push_back(output);
  }
  return scanning;
}

// What is known outside of a loop of scanned output `output`: dims that only an iteration finds, or that
// the body names itself, are not.
SequenceType appended_type(const GraphBuilder& around, const WithBodies& loop, size_t output) {
  std::set<std::string> known;
  for (const ValueId id : loop.operands)
    if (id != kNoValue)
      for (const Dim& dim : around.value(id).shape) known.merge(dim.symbols());
  const Graph& body = std::get<Loop>(loop.op).body.graph();
  const Value& slice = body.value(body.outputs()[1 + output]);
  SequenceType type = type_of_tensor(slice.dtype, slice.shape);
  for (auto& dim : type.dims) {
    const std::set<std::string> names = dim->symbols();
    if (!std::includes(known.begin(), known.end(), names.begin(), names.end())) dim.reset();
  }
  return type;
}

}  // namespace

std::optional<Values> GraphImporter::import_appending_loop(NodeImport& node, Scope& scope) {
  const GraphProto& proto = *node.graph("body");
  const Values operands = loop_operands(node);
  const size_t carried = operands.size() - kLoopOwnInputs;
  std::vector<Append> appends;
  Values kept(operands.begin(), operands.begin() + kLoopOwnInputs);
  const auto key_of = [&](size_t i) { return node.name() + "/" + std::to_string(i); };
  for (size_t i = 0; i < carried; ++i) {
    const ValueId value = node.in(kLoopOwnInputs + i);
    if (!Sequences::is_sequence(value)) {
      kept.push_back(value);
      continue;
    }
    const auto append = find_append(proto, i);
    if (!append || ragged_forms_.contains(key_of(i))) return std::nullopt;
    appends.push_back(*append);
  }
  std::deque<std::string> names;
  const GraphProto scanning = scanning_body(proto, appends, names);
  WithBodies made = make_loop(
      node.builder(), node.name(), kept, input_names(scanning),
      [&](BodyBuilder& body) { import_whole_body(scanning, node, scope, body); },
      changing_dims_[node.name()]);
  // Tensors whose dims an iteration finds may differ from one to the next.
  for (size_t i = 0; i < appends.size(); ++i) {
    const SequenceType type = appended_type(node.builder(), made, made.outputs - appends.size() + i);
    if (type.has_one_shape()) continue;
    ragged_forms_[key_of(appends[i].carried)] = form_of(type);
    changing_dims_.erase(node.name());  // of other values
    return std::nullopt;
  }
  const Values results = add_with_bodies(node, std::move(made));
  // Carried values in the order of the body, sequences among them, then what was scanned before.
  Values all(results.begin(), results.end() - static_cast<std::ptrdiff_t>(appends.size()));
  for (size_t i = 0; i < appends.size(); ++i) {
    const ValueId before = operands[kLoopOwnInputs + appends[i].carried];
    const ValueId slices = results[results.size() - appends.size() + i];
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(appends[i].carried),
               sequences_.joined(node.builder(), node.origin(), before, sequences_.add_slices(slices)));
  }
  return all;
}

}  // namespace lathe::onnx
