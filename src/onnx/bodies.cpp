// SPDX-License-Identifier: Apache-2.0
#include "onnx/bodies.h"

#include <algorithm>

#include "onnx/model.h"
#include "ops/control_flow.h"

namespace lathe::onnx {

namespace {

Dim own_symbol(const std::string& node, size_t value, size_t dim) {
  return Dim::symbol(symbol_name(node) + ".carried" + std::to_string(value) + ".dim" + std::to_string(dim));
}

// Notes the dims of the value that are others behind an iteration. False when there are none.
bool find_changing(const Shape& taken, const Shape& given, const std::string& node, size_t value,
                   ChangingDims& changing) {
  if (taken.size() != given.size())
    throw_unsupported("carried value " + std::to_string(value) + " has rank " + std::to_string(taken.size()) +
                      " before an iteration and rank " + std::to_string(given.size()) + " after it");
  bool changed = false;
  for (size_t d = 0; d < taken.size(); ++d) {
    const Dim own = own_symbol(node, value, d);
    if (taken[d] == given[d] || taken[d] == own) continue;
    changing.emplace(value, d);
    changed = true;
  }
  return changed;
}

void capture_all(const GraphBuilder& around, const Values& values, BodyBuilder& body) {
  for (const ValueId id : values) body.capture(around, id);
}

void append(Values& to, const Values& values) {
  to.insert(to.end(), values.begin(), values.end());
}

}  // namespace

std::string symbol_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    name += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ? c : '_';
  }
  if (name.empty() || (name[0] >= '0' && name[0] <= '9') || name[0] == '.') name.insert(0, "_");
  return name;
}

ValueId BodyBuilder::add_input(DType dtype, Shape shape, std::string name) {
  own_inputs.push_back(builder.editor().add_input(std::move(name), dtype, std::move(shape)));
  return own_inputs.back();
}

ValueId BodyBuilder::capture(const GraphBuilder& around, ValueId outer) {
  const Value value = around.value(outer);
  if (value.is_constant()) return builder.add_constant(value.name, value.constant);
  const auto found = std::find(captured.begin(), captured.end(), outer);
  const auto index = static_cast<size_t>(found - captured.begin());
  if (found != captured.end()) return graph.inputs()[own_inputs.size() + index];
  captured.push_back(outer);
  const ValueId input = builder.editor().add_input(value.name, value.dtype, value.shape);
  builder.editor().set_contents(input, value.contents);
  return input;
}

// Both branches take all that one of them captures, in one order.
WithBodies make_if(const GraphBuilder& around, ValueId condition, const FillBody& fill_then,
                   const FillBody& fill_else) {
  BodyBuilder then_body, else_body;
  fill_then(then_body);
  capture_all(around, then_body.captured, else_body);
  fill_else(else_body);
  capture_all(around, else_body.captured, then_body);
  const size_t outputs = then_body.graph.outputs().size();
  if (outputs != else_body.graph.outputs().size())
    throw_input_error("its branches give " + std::to_string(outputs) + " and " +
                      std::to_string(else_body.graph.outputs().size()) + " values");
  Values operands = {condition};
  append(operands, then_body.captured);
  return {If{Body(std::move(then_body.graph)), Body(std::move(else_body.graph))}, std::move(operands),
          outputs};
}

WithBodies make_loop(const GraphBuilder& around, const std::string& node, Values operands,
                     const InputNames& names, const FillBody& fill, ChangingDims& changing) {
  const size_t carried = operands.size() - kLoopOwnInputs;
  const auto start = [&](size_t i) -> const Value& { return around.value(operands[kLoopOwnInputs + i]); };
  std::vector<Shape> taken;
  for (size_t i = 0; i < carried; ++i) taken.push_back(start(i).shape);
  while (true) {
    for (const auto& [value, dim] : changing)
      if (value < carried && dim < taken[value].size()) taken[value][dim] = own_symbol(node, value, dim);
    BodyBuilder body;
    body.add_input(DType::Int64, {}, names[0]);
    body.add_input(DType::Bool, {}, names[1]);
    for (size_t i = 0; i < carried; ++i) body.add_input(start(i).dtype, taken[i], names[2 + i]);
    fill(body);
    bool changed = false;
    for (size_t i = 0; i < carried; ++i)
      changed |=
          find_changing(taken[i], body.graph.value(body.graph.outputs()[1 + i]).shape, node, i, changing);
    if (changed) continue;
    append(operands, body.captured);
    const size_t outputs = body.graph.outputs().size() - 1;
    return {Loop{.body = Body(std::move(body.graph)), .carried = static_cast<int64_t>(carried)},
            std::move(operands), outputs};
  }
}

WithBodies make_scan(const GraphBuilder& around, Scan op, Values operands, const InputNames& names,
                     const FillBody& fill) {
  const auto states = static_cast<size_t>(op.states);
  BodyBuilder body;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value& value = around.value(operands[i]);
    Shape shape = value.shape;
    if (i >= states) {
      int64_t& axis = op.input_axes[i - states];
      axis = normalize_axis(axis, static_cast<int64_t>(shape.size()), "scan_input_axes");
      shape.erase(shape.begin() + axis);
    }
    body.add_input(value.dtype, std::move(shape), names[i]);
  }
  fill(body);
  append(operands, body.captured);
  const size_t outputs = body.graph.outputs().size();
  op.body = Body(std::move(body.graph));
  return {std::move(op), std::move(operands), outputs};
}

}  // namespace lathe::onnx
