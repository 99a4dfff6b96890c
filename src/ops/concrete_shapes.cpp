// SPDX-License-Identifier: Apache-2.0
#include "ops/concrete_shapes.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/op_def.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

constexpr int64_t kLargestDim = std::numeric_limits<int32_t>::max();

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

// The ONNX nodes of a layer, when its own name does not say them already.
std::string origins_text(const Node& node) {
  std::vector<std::string> names;
  for (const Origin& origin : node.origins)
    if (!origin.name.empty() && node.name.find(origin.name) == std::string::npos)
      names.push_back(origin.name);
  constexpr size_t kMost = 4;
  const bool more = names.size() > kMost;
  if (more) names.resize(kMost);
  return names.empty() ? "" : ", which is of the ONNX nodes " + join(names) + (more ? " and others" : "");
}

bool has_huge_dim(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(),
                     [](const Dim& dim) { return dim.is_constant() && dim.value() > kLargestDim; });
}

std::string describe(const Node& node, const std::vector<const Value*>& inputs) {
  std::string text = "node '" + node.name + "' (" + std::string(op_display_name(node.op));
  for (size_t i = 0; i < inputs.size(); ++i)
    text += (i == 0 ? " of " : ", ") + (inputs[i] ? type_text(inputs[i]->dtype, inputs[i]->shape) : "none");
  return text + ")";
}

[[noreturn]] void negative(const Node& node, const std::vector<const Value*>& inputs, const Value& planned) {
  throw_input_error(describe(node, inputs) + " gives " + to_string(planned.shape) +
                    ": its operand is too small");
}

[[noreturn]] void too_large(const Node& node, const std::vector<const Value*>& inputs) {
  throw_input_error(describe(node, inputs) +
                    " has a dim that is too large: kernels and their libraries take dims up to " +
                    std::to_string(kLargestDim));
}

void compare(const Node& node, const std::vector<const Value*>& inputs, const Shape& inferred,
             const Value& planned) {
  if (has_huge_dim(planned.shape) || has_huge_dim(inferred)) too_large(node, inputs);
  bool same = inferred.size() == planned.shape.size();
  for (size_t d = 0; same && d < inferred.size(); ++d) {
    const Dim &found = inferred[d], &expected = planned.shape[d];
    same = !found.is_constant() || !expected.is_constant() || found == expected;
    if (expected.is_constant() && expected.value() < 0) negative(node, inputs, planned);
  }
  if (!same)
    throw_input_error(describe(node, inputs) + " gives " + to_string(inferred) + ", but the model says " +
                      to_string(planned.shape) + " of its result '" + planned.name +
                      "': sizes that must be equal differ");
}

constexpr size_t kRemembered = 8;

}  // namespace

ConcreteShapes::ConcreteShapes(const Graph& graph, const SymbolValues& symbols) : graph_(graph) {
  for (const auto& [name, value] : symbols) known_.emplace(name, Dim(value));
}

void ConcreteShapes::check(NodeId id) {
  const Node& node = graph_.node(id);
  if (std::any_of(checked_.begin(), checked_.end(),
                  [&](NodeId other) { return asks_the_same(node, graph_.node(other)); }))
    return;
  std::vector<const Value*> inputs;  // addresses of the map's elements stay valid
  for (const ValueId input : node.inputs) inputs.push_back(input == kNoValue ? nullptr : &concrete(input));
  try {
    for (const Value* input : inputs)
      if (input != nullptr && has_huge_dim(input->shape)) too_large(node, inputs);
    const Op op = substitute_dims(node.op, known_);
    const auto results = infer(op, node.epilogue, InferContext{node.name, inputs, node.outputs.size()});
    for (size_t i = 0; i < results.size(); ++i)
      if (node.outputs[i] != kNoValue) compare(node, inputs, results[i].shape, concrete(node.outputs[i]));
  } catch (Error& error) {
    if (const std::string origins = origins_text(node); !origins.empty())
      error.add_context("layer '" + node.name + "'" + origins);
    throw;
  }
  checked_.push_front(id);
  if (checked_.size() > kRemembered) checked_.pop_back();
}

const Value& ConcreteShapes::concrete(ValueId id) {
  const Value& value = graph_.value(id);
  if (value.is_constant()) return value;
  const auto [found, is_new] = values_.try_emplace(id);
  if (is_new) {
    found->second = {.name = value.name,
                     .dtype = value.number_type(),
                     .shape = substitute_dims(value.shape, known_),
                     .format = value.format};
    if (value.contents) found->second.contents = substitute_dims(*value.contents, known_);
  }
  return found->second;
}

bool ConcreteShapes::asks_the_same(const Node& a, const Node& b) const {
  const auto are_alike = [&](ValueId one, ValueId other) {
    if (one == other) return true;
    if (one == kNoValue || other == kNoValue) return false;
    const Value &x = graph_.value(one), &y = graph_.value(other);
    return !x.is_constant() && !y.is_constant() && x.number_type() == y.number_type() && x.shape == y.shape &&
           x.format == y.format && x.contents == y.contents;
  };
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), are_alike) &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(), are_alike) &&
         a.epilogue == b.epilogue && a.op == b.op;
}

void check_concrete_shapes(const Graph& graph, std::span<const NodeId> nodes, const SymbolValues& symbols) {
  ConcreteShapes shapes(graph, symbols);
  for (const NodeId id : nodes) shapes.check(id);
}

}  // namespace lathe
