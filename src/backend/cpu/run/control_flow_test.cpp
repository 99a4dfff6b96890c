// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"
#include "ir/text.h"
#include "ops/build.h"

namespace lathe::cpu {
TacticFamily control_flow_tactics();
namespace {

CheckedInput floats(Extents extents) {
  return {.extents = std::move(extents)};
}
CheckedInput number(DType type, double value) {
  return {.dtype = type, .extents = {}, .constant = true, .low = value, .high = value};
}

// A layer of the team, one of a single member, and a change of shape. Damped, so that rounding does not grow
// with the iterations.
Body repeated() {
  return Body(parse_graph(R"(graph "body" {
  input %i: int64[]
  input %go: bool[]
  input %h: float32[40, 64]
  input %w: float32[64, 64]
  const %one: float32[64] = random 2
  const %small: float32[] = [0.05]
  %p: float32[40, 64] = MatMul "product" (%h, %w)
  %p2: float32[40, 64] = Pointwise "damp" (%p, %small) {code=Mul}
  %q: float32[40, 64] = Pointwise "tanh" (%p2) {code=Tanh}
  %r: float32[40, 64] = Pointwise "add" (%q, %one) {code=Add}
  %s: float32[64, 40] = Reshape "turn" (%r) {shape=[64, 40]}
  output %go
  output %r
  output %s
})"));
}

TEST(ControlFlowTactics, LoopOnTheWholeTeam) {
  for (const double trips : {0.0, 1.0, 7.0})
    EXPECT_GE(
        check_layer(control_flow_tactics(), {.op = Loop{.body = repeated(), .carried = 1},
                                             .inputs = {number(DType::Int64, trips), number(DType::Bool, 1),
                                                        floats({40, 64}), floats({64, 64})},
                                             .outputs = 2}),
        1);
}

TEST(ControlFlowTactics, BranchesAndSlices) {
  const auto branch = [](std::string_view code) {
    return Body(parse_graph(R"(graph "branch" {
  input %x: float32[300, 50]
  %y: float32[300, 50] = Pointwise "step" (%x) {code=)" +
                            std::string(code) + R"(}
  output %y
})"));
  };
  for (const double taken : {0.0, 1.0})
    EXPECT_GE(
        check_layer(control_flow_tactics(), {.op = If{branch("Relu"), branch("Exp")},
                                             .inputs = {number(DType::Bool, taken), floats({300, 50})}}),
        1);
  const Body sum(parse_graph(R"(graph "step" {
  input %total: float32[6]
  input %slice: float32[6]
  %next: float32[6] = Pointwise "add" (%total, %slice) {code=Add}
  output %next
  output %next
})"));
  for (const int64_t reversed : {0, 1})
    EXPECT_GE(check_layer(control_flow_tactics(), {.op = Scan{.body = sum,
                                                              .states = 1,
                                                              .input_axes = {1},
                                                              .output_axes = {0},
                                                              .input_reversed = {reversed},
                                                              .output_reversed = {reversed}},
                                                   .inputs = {floats({6}), floats({6, 9})},
                                                   .outputs = 2}),
              1);
}

// A body inside of a body, whose layers the same team runs.
TEST(ControlFlowTactics, LoopsInLoops) {
  const std::string inner = R"(graph "inner" {
  input %i: int64[]
  input %go: bool[]
  input %h: float32[64, 64]
  const %small: float32[] = [0.05]
  %p: float32[64, 64] = MatMul "product" (%h, %h)
  %p2: float32[64, 64] = Pointwise "damp" (%p, %small) {code=Mul}
  %q: float32[64, 64] = Pointwise "tanh" (%p2) {code=Tanh}
  output %go
  output %q
})";
  Graph outer = parse_graph(R"(graph "outer" {
  input %i: int64[]
  input %go: bool[]
  input %h: float32[64, 64]
  const %three: int64[] = [3]
  %q: float32[64, 64] = Pointwise "tanh" (%h) {code=Tanh}
  output %go
  output %q
})");
  GraphEditor editor(outer);
  Node loop;
  loop.name = "inner";
  loop.op = Loop{.body = Body(parse_graph(inner)), .carried = 1};
  const ValueId three = *outer.find_value("three");
  loop.inputs = {three, outer.inputs()[1], outer.outputs()[1]};
  const ValueId result = append_node(editor, "inner", loop.op, loop.inputs, {}, {"last"})[0];
  editor.replace_output(1, result);
  EXPECT_GE(check_layer(control_flow_tactics(),
                        {.op = Loop{.body = Body(outer), .carried = 1},
                         .inputs = {number(DType::Int64, 4), number(DType::Bool, 1), floats({64, 64})}}),
            1);
}

TEST(ControlFlowTactics, NamesWhatHasNoKernel) {
  const Body body(parse_graph(R"(graph "branch" {
  input %rate: int64[]
  const %bins: int64[] = [3]
  const %length: int64[] = [8]
  const %low: float32[] = [0]
  const %high: float32[] = [4]
  %y: float32[5, 3] = MelWeightMatrix "mel" (%bins, %length, %rate, %low, %high) {dtype=float32}
  output %y
})"));
  const std::vector<std::string> why =
      refusals(control_flow_tactics(),
               {.op = If{body, body}, .inputs = {number(DType::Bool, 1), number(DType::Int64, 16)}});
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].find("'mel' (MelWeightMatrix) of its body has no kernel"), std::string::npos) << why[0];
}

}  // namespace
}  // namespace lathe::cpu
