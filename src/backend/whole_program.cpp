// SPDX-License-Identifier: Apache-2.0
#include "backend/whole_program.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lathe {
namespace {

// Operand numbers of `program` after its inputs grew by `extra`.
void insert_inputs(PointwiseProgram& program, int extra) {
  for (PointwiseStep& step : program.steps)
    for (int& o : step.operands)
      if (o >= program.input_count) o += extra;
  program.input_count += extra;
}

struct IntegerRange {
  float low = 0, high = 0;
};

IntegerRange range_of(DType type) {
  switch (type) {
    case DType::Int8:
      return {-128, 127};
    case DType::UInt8:
      return {0, 255};
    case DType::Int16:
      return {-32768, 32767};
    case DType::UInt16:
      return {0, 65535};
    default:
      check(false, "no range for a quantised " + std::string(dtype_name(type)));
      return {};
  }
}

bool has_zero_point(const Node& node) {
  return node.op_input_count() > 2;
}

// inputs: x, scale, [zero point]
PointwiseProgram quantize_program(const QuantizeLinear& op, const Node& node) {
  const IntegerRange range = range_of(op.to);
  const bool zero = has_zero_point(node);
  PointwiseProgram program = zero ? PointwiseProgram::parse("Div(0,1) Round(3) Add(4,2)", 3)
                                  : PointwiseProgram::parse("Div(0,1) Round(2)", 2);
  const int last = program.input_count + static_cast<int>(program.steps.size()) - 1;
  program.steps.push_back({PointwiseCode::Clip, range.low, range.high, {last}});
  return program;
}

PointwiseProgram dequantize_program(const Node& node) {
  return has_zero_point(node) ? PointwiseProgram::parse("Sub(0,2) Mul(3,1)", 3)
                              : PointwiseProgram::parse("Mul(0,1)", 2);
}

PointwiseProgram op_program(const Node& node) {
  if (const auto* quantize = std::get_if<QuantizeLinear>(&node.op)) return quantize_program(*quantize, node);
  if (std::holds_alternative<DequantizeLinear>(node.op)) return dequantize_program(node);
  if (const auto* chain = std::get_if<PointwiseChain>(&node.op)) return chain->program;
  PointwiseProgram program;
  if (const auto* norm = std::get_if<BatchNorm>(&node.op)) {
    // inputs: x, scale, bias, mean, variance
    program = PointwiseProgram::parse("Sub(0,3)", 5);
    program.steps.push_back({PointwiseCode::Linear, 1, norm->epsilon, {4}});  // 6
    program.steps.push_back({PointwiseCode::Sqrt, 0, 0, {6}});                // 7
    program.steps.push_back({PointwiseCode::Div, 0, 0, {1, 7}});              // 8
    program.steps.push_back({PointwiseCode::Mul, 0, 0, {5, 8}});              // 9
    program.steps.push_back({PointwiseCode::Add, 0, 0, {9, 2}});
    return program;
  }
  program.input_count = static_cast<int>(node.op_input_count());
  PointwiseStep step;
  if (const auto* op = std::get_if<Pointwise>(&node.op)) step = {op->code, op->alpha, op->beta, {}};
  for (int i = 0; i < program.input_count; ++i) step.operands.push_back(i);
  program.steps.push_back(step);
  return program;
}

}  // namespace

bool is_plain_quantization(const Node& node) {
  if (std::count(node.inputs.begin(), node.inputs.end(), kNoValue) > 0) return false;
  if (const auto* quantize = std::get_if<QuantizeLinear>(&node.op))
    return quantize->block_size == 0 && (quantize->to == DType::Int8 || quantize->to == DType::UInt8 ||
                                         quantize->to == DType::Int16 || quantize->to == DType::UInt16);
  const auto* dequantize = std::get_if<DequantizeLinear>(&node.op);
  return dequantize && dequantize->block_size == 0;
}

Shape operand_shape(const Graph& graph, const Node& node, size_t input) {
  Shape shape = graph.value(node.inputs[input]).shape;
  const auto rank = static_cast<int64_t>(graph.value(node.outputs[0]).shape.size());
  const auto align = [&](int64_t axis) {
    if (axis < 0) axis += rank;
    shape.resize(static_cast<size_t>(std::max<int64_t>(1, rank - axis)), Dim(1));
  };
  if (std::holds_alternative<BatchNorm>(node.op) && input > 0 && input < 5) align(1);
  if (input == 0 || input > 2 || shape.empty() || shape[0].is_constant(1)) return shape;
  if (const auto* quantize = std::get_if<QuantizeLinear>(&node.op)) align(quantize->axis);
  if (const auto* dequantize = std::get_if<DequantizeLinear>(&node.op)) align(dequantize->axis);
  return shape;
}

PointwiseProgram whole_program(const Node& node) {
  PointwiseProgram program = op_program(node);
  if (node.epilogue.empty()) return program;
  // The epilogue's input 0 is our last step; its other inputs follow ours.
  const int inputs = program.input_count, extra = node.epilogue.input_count - 1;
  insert_inputs(program, extra);
  const int steps = static_cast<int>(program.steps.size());
  for (PointwiseStep step : node.epilogue.steps) {
    for (int& o : step.operands) {
      if (o == 0)
        o = program.input_count + steps - 1;
      else if (o < node.epilogue.input_count)
        o += inputs - 1;
      else
        o += program.input_count - node.epilogue.input_count + steps;
    }
    program.steps.push_back(std::move(step));
  }
  return program;
}

}  // namespace lathe
