// SPDX-License-Identifier: Apache-2.0

#include "ops/evaluate_op.h"

namespace lathe {
namespace {

FeedForward gelu(bool transposed = false) {
  return {.transpose_first = transposed,
          .transpose_second = transposed,
          .hidden = PointwiseProgram::parse("Add(0,1) GeluErf(2)", 2)};
}

TEST(FeedForward, EqualsItsParts) {
  const Tensor x = ramp({2, 3, 4}, 0.05f), first = ramp({4, 8}, 0.02f), bias = ramp({8}, -0.1f),
               second = ramp({8, 5}, -0.03f);
  const Tensor sums = evaluate_op(MatMul{}, {x, first})[0];
  const Tensor hidden =
      evaluate_op(PointwiseChain{PointwiseProgram::parse("Add(0,1) GeluErf(2)", 2)}, {sums, bias})[0];
  const Tensor y = evaluate_op(MatMul{}, {hidden, second})[0];
  expect_near(evaluate_op(gelu(), {x, first, second, bias})[0], y.to_doubles());
  const Tensor across = evaluate_op(Transpose{{1, 0}}, {first})[0],
               second_across = evaluate_op(Transpose{{1, 0}}, {second})[0];
  expect_near(evaluate_op(gelu(true), {x, across, second_across, bias})[0], y.to_doubles());
  const Tensor plain = evaluate_op(MatMul{}, {sums, second})[0];
  expect_near(evaluate_op(FeedForward{}, {x, first, second})[0], plain.to_doubles());
}

TEST(FeedForward, FlopsAreThoseOfItsParts) {
  Node node;
  node.op = gelu();
  const std::vector<Extents> inputs = {{2, 3, 4}, {4, 8}, {8, 5}, {8}}, outputs = {{2, 3, 5}};
  EXPECT_EQ(node_flops(node, {inputs, outputs}), 2.0 * 6 * 4 * 8 + 2 * 6 * 8 + 2.0 * 6 * 8 * 5);
}

TEST(FeedForward, SaysWhatIsWrong) {
  const Tensor x = ramp({3, 4}), first = ramp({4, 8}), second = ramp({8, 5}), bias = ramp({8}), none;
  expect_input_error([&] { evaluate_op(gelu(), {x, first, none, bias}); }, "input 2 is required");
  expect_input_error(
      [&] {
        evaluate_op(gelu(), {x, first, second});
      },
      "needs 1 operands of its function, has 0");
  expect_input_error([&] { evaluate_op(FeedForward{}, {x, first, ramp({1, 8, 5})}); }, "must be matrices");
  expect_input_error(
      [&] {
        evaluate_op(FeedForward{}, {x, first, ramp({7, 5})});
      },
      "inner dims differ: 8 and 7");
  expect_input_error([&] { evaluate_op(gelu(), {x, first, second, ramp({3})}); }, "do not broadcast");
}

}  // namespace
}  // namespace lathe
