// SPDX-License-Identifier: Apache-2.0
#include "backend/whole_program.h"

#include <utility>

namespace lathe {
namespace {

// Operand numbers of `program` after its inputs grew by `extra`.
void insert_inputs(PointwiseProgram& program, int extra) {
  for (PointwiseStep& step : program.steps)
    for (int& o : step.operands)
      if (o >= program.input_count) o += extra;
  program.input_count += extra;
}

PointwiseProgram op_program(const Node& node) {
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
