// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backend/cpu/check/tactic_check.h"
#include "backend/cpu/device/machine.h"
#include "backend/cpu/onednn/onednn_matmul_problem.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe::cpu {
namespace {

Tensor random_constant(const Extents& extents, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
  std::vector<float> values(static_cast<size_t>(element_count(extents)));
  for (float& v : values) v = uniform(random);
  return Tensor::from<float>(extents, values);
}

struct MatMulOperand {
  Shape shape;
  bool constant = false;
};

struct MatMulTestProblem {
  Shape a, b;
  bool constant_a = false, constant_b = true;
  MatMul op;
  std::string epilogue;
  std::vector<MatMulOperand> operands;
  bool bf16 = false;
  SymbolRanges ranges;
};

TacticCheckResult expect_right_matmul(const MatMulTestProblem& problem) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId a = problem.constant_a ? editor.add_constant("a", random_constant(to_extents(problem.a), 2))
                                       : editor.add_input("a", DType::Float32, problem.a);
  const ValueId b = problem.constant_b ? editor.add_constant("b", random_constant(to_extents(problem.b), 1))
                                       : editor.add_input("b", DType::Float32, problem.b);
  const ValueId y = append_node(editor, "product", problem.op, {a, b}, {})[0];
  const NodeId node = graph.value(y).producer;
  if (!problem.epilogue.empty()) {
    std::vector<ValueId> ids;
    for (const MatMulOperand& operand : problem.operands)
      ids.push_back(operand.constant ? editor.add_constant("c", random_constant(to_extents(operand.shape), 5))
                                     : editor.add_input("o", DType::Float32, operand.shape));
    editor.set_epilogue(node, PointwiseProgram::parse(problem.epilogue, static_cast<int>(ids.size()) + 1),
                        ids);
  }
  if (problem.bf16) editor.set_allowed_types(node, {DType::BFloat16});
  editor.mark_output(y);
  return cpu::expect_right(graph, node, {.runner = "OnednnMatMul", .ranges = problem.ranges});
}

TEST(OnednnMatMul, ConstantSecondOperand) {
  const auto result = expect_right_matmul({.a = {128, 96}, .b = {96, 192}});
  EXPECT_TRUE(ran(result, "_rows"));
  EXPECT_TRUE(ran(result, "_cols2"));
  expect_right_matmul({.a = {1, 300}, .b = {300, 1000}});
  expect_right_matmul({.a = {7, 33}, .b = {33, 130}});
  expect_right_matmul({.a = {16, 16}, .b = {16, 16}});
  expect_right_matmul({.a = {2, 50, 64}, .b = {64, 200}});
  expect_right_matmul({.a = {2, 3, 10, 64}, .b = {1, 1, 64, 129}});
}

TEST(OnednnMatMul, ConstantFirstOperand) {
  for (const bool bf16 : {false, true}) {
    expect_right_matmul({.a = {9, 20}, .b = {20}, .constant_a = true, .constant_b = false, .bf16 = bf16});
    expect_right_matmul(
        {.a = {9, 20}, .b = {2, 20, 7}, .constant_a = true, .constant_b = false, .bf16 = bf16});
    expect_right_matmul({.a = {20, 9},
                         .b = {20, 7},
                         .constant_a = true,
                         .constant_b = false,
                         .op = {.transpose_a = true},
                         .bf16 = bf16});
  }
}

TEST(OnednnMatMul, Transposes) {
  expect_right_matmul({.a = {60, 130}, .b = {60, 140}, .op = {.transpose_a = true}});
  expect_right_matmul({.a = {60, 130}, .b = {140, 130}, .op = {.transpose_b = true}});
  expect_right_matmul({.a = {3, 60, 50}, .b = {140, 60}, .op = {.transpose_a = true, .transpose_b = true}});
  expect_right_matmul({.a = {4, 20, 30}, .b = {4, 50, 30}, .constant_b = false, .op = {.transpose_b = true}});
  expect_right_matmul({.a = {4, 30, 20}, .b = {4, 30, 50}, .constant_b = false, .op = {.transpose_a = true}});
}

TEST(OnednnMatMul, BatchesAndBroadcast) {
  const auto result = expect_right_matmul({.a = {2, 12, 40, 16}, .b = {2, 12, 16, 40}, .constant_b = false});
  EXPECT_TRUE(ran(result, "_batch"));
  expect_right_matmul({.a = {2, 3, 40, 16}, .b = {3, 16, 40}, .constant_b = false});
  expect_right_matmul({.a = {2, 1, 40, 16}, .b = {1, 3, 16, 40}, .constant_b = false});
  expect_right_matmul({.a = {40, 16}, .b = {3, 16, 40}, .constant_b = false});
  expect_right_matmul({.a = {3, 40, 16}, .b = {3, 16, 40}});
  expect_right_matmul({.a = {64}, .b = {64, 80}});
  expect_right_matmul({.a = {5, 64}, .b = {64}});
  expect_right_matmul({.a = {64}, .b = {64}, .constant_b = false});
}

TEST(OnednnMatMul, DynamicRows) {
  expect_right_matmul({.a = {Dim::symbol("n"), 64}, .b = {64, 300}, .ranges = {{"n", {1, 20, 200}}}});
  expect_right_matmul({.a = {Dim::symbol("n"), 64},
                       .b = {64, 300},
                       .epilogue = "Add(0,1) GeluErf(2)",
                       .operands = {{{300}, true}},
                       .ranges = {{"n", {1, 40, 70}}}});
}

TEST(OnednnMatMul, StackOfWeights) {
  const auto result = expect_right_matmul({.a = {128, 96}, .b = {3, 96, 192}});
  EXPECT_TRUE(ran(result, "_rows"));
  EXPECT_TRUE(ran(result, "_cols2"));
  EXPECT_TRUE(std::none_of(result.ran.begin(), result.ran.end(),
                           [](const std::string& name) { return name.find("_batch") != std::string::npos; }));
  expect_right_matmul({.a = {1, 300}, .b = {2, 300, 130}});
  for (const bool bf16 : {false, true}) {
    expect_right_matmul({.a = {40, 64},
                         .b = {3, 200, 64},
                         .op = {.transpose_b = true},
                         .epilogue = "Add(0,1) GeluErf(2)",
                         .operands = {{{3, 1, 200}, true}},
                         .bf16 = bf16});
    expect_right_matmul({.a = {Dim::symbol("n"), 64},
                         .b = {2, 64, 128},
                         .epilogue = "Mul(0,1) Add(3,2)",
                         .operands = {{{2, 1, 1}, true}, {{128}, true}},
                         .bf16 = bf16,
                         .ranges = {{"n", {1, 40, 70}}}});
  }
  expect_right_matmul({.a = {20, 64}, .b = {2, 64, 64}, .epilogue = "Add(0,1)", .operands = {{{2, 20, 64}}}});
}

TEST(OnednnMatMul, Epilogues) {
  for (const char* text :
       {"Relu(0)", "GeluErf(0)", "GeluTanh(0)", "Silu[1](0)", "Sigmoid(0) Mul(0,1)", "HardSwish(0)"})
    expect_right_matmul({.a = {3, 40, 64}, .b = {64, 200}, .epilogue = text});
  expect_right_matmul(
      {.a = {3, 40, 64}, .b = {64, 200}, .epilogue = "Add(0,1)", .operands = {{{200}, true}}});
  expect_right_matmul({.a = {3, 40, 64},
                       .b = {64, 200},
                       .epilogue = "Add(0,1) Add(3,2)",
                       .operands = {{{200}, true}, {{3, 40, 200}}}});
  expect_right_matmul({.a = {3, 40, 64}, .b = {64, 200}, .epilogue = "Mul(0,1)", .operands = {{{3, 40, 1}}}});
  expect_right_matmul(
      {.a = {1, 64}, .b = {64, 200}, .epilogue = "Add(0,1) Relu(2)", .operands = {{{200}, true}}});
  expect_right_matmul({.a = {2, 4, 20, 16},
                       .b = {2, 4, 16, 20},
                       .constant_b = false,
                       .epilogue = "Mul(0,1) Add(3,2)",
                       .operands = {{{}, true}, {{2, 1, 1, 20}}}});
}

TEST(OnednnMatMul, Bf16) {
  const auto result = expect_right_matmul({.a = {3, 40, 64},
                                           .b = {64, 200},
                                           .epilogue = "Add(0,1) GeluErf(2)",
                                           .operands = {{{200}, true}},
                                           .bf16 = true});
  if (read_cpu_info().features.has(CpuFeature::Bf16)) {
    EXPECT_TRUE(ran(result, "bfloat16"));
  }
  expect_right_matmul(
      {.a = {1, 64}, .b = {64, 200}, .epilogue = "Add(0,1)", .operands = {{{1, 200}}}, .bf16 = true});
  expect_right_matmul(
      {.a = {4, 20, 30}, .b = {4, 50, 30}, .constant_b = false, .op = {.transpose_b = true}, .bf16 = true});
}

TEST(OnednnMatMul, SaysWhyItRefuses) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId a = editor.add_input("a", DType::Int32, {4, 4}),
                b = editor.add_input("b", DType::Int32, {4, 4});
  const ValueId y = append_node(editor, "product", MatMul{}, {a, b}, {})[0];
  const auto result = check_tactics(graph, graph.value(y).producer, {.runner = "OnednnMatMul"});
  ASSERT_EQ(result.refused.size(), 1u);
  EXPECT_NE(result.refused[0].find("int32 input"), std::string::npos);
}

// The library would divide by zero.
TEST(OnednnMatMul, EmptyMatricesHaveNoPlan) {
  for (const auto& [a, b] :
       {std::pair<Extents, Extents>{{0, 4}, {4, 3}}, {{2, 0}, {0, 3}}, {{2, 4}, {4, 0}}}) {
    const MatMulProblem problem = MatMulProblem::at(MatMul{}, a, b);
    const MatMulVariant variant{.source = DType::Float32, .result = DType::Float32};
    EXPECT_FALSE(plan_matmul(problem, variant, matmul_parts(problem, variant, 1)[0], nullptr))
        << to_string(a);
  }
}

}  // namespace
}  // namespace lathe::cpu
