// SPDX-License-Identifier: Apache-2.0

#include "ops/evaluate_op.h"

namespace lathe {
namespace {

DepthwiseBlock block(int64_t stride) {
  return {.kernel = {3, 3},
          .strides = {stride, stride},
          .pads_begin = {1, 1},
          .pads_end = {1, 1},
          .expand_epilogue = PointwiseProgram::parse("Clip[0,6](0)", 1),
          .depthwise_epilogue = PointwiseProgram::parse("Relu(0)", 1)};
}

TEST(DepthwiseBlock, EqualsItsParts) {
  const Tensor x = ramp({2, 3, 6, 5}, 0.01f), expand = ramp({8, 3, 1, 1}, 0.1f), b1 = ramp({8}, -0.5f),
               window = ramp({8, 1, 3, 3}, -0.02f), b2 = ramp({8}, 0.3f), project = ramp({5, 8, 1, 1}, 0.05f);
  for (const int64_t stride : {1, 2}) {
    const DepthwiseBlock op = block(stride);
    const auto apply = [](const char* program, const Tensor& t) {
      return evaluate_op(PointwiseChain{PointwiseProgram::parse(program, 1)}, {t})[0];
    };
    const Tensor a = apply("Clip[0,6](0)", evaluate_op(Conv{.kernel = {1, 1}}, {x, expand, b1})[0]);
    const Conv depthwise{{3, 3}, {stride, stride}, {}, {1, 1}, {1, 1}, 8};
    const Tensor raw = evaluate_op(depthwise, {a, window, b2})[0], b = apply("Relu(0)", raw);
    const Tensor y = evaluate_op(Conv{.kernel = {1, 1}}, {b, project})[0];
    expect_near(evaluate_op(op, {x, expand, b1, window, b2, project, Tensor()})[0], y.to_doubles());
    expect_near(evaluate_op(op, {x, expand, b1, window, b2, Tensor(), Tensor()})[0], raw.to_doubles());
    expect_near(evaluate_op(op, {a, Tensor(), Tensor(), window, b2, project, Tensor()})[0], y.to_doubles());
  }
}

TEST(DepthwiseBlock, FlopsAreThoseOfItsParts) {
  Node node;
  node.op = block(2);
  const std::vector<Extents> inputs = {{2, 3, 6, 4}, {8, 3, 1, 1}, {8}, {8, 1, 3, 3}, {8}, {5, 8, 1, 1}, {0}};
  const std::vector<Extents> outputs = {{2, 5, 3, 2}};
  const double expand = 2.0 * 3 * 8 * 2 * 24 + 8 * 2 * 24, depthwise = 2.0 * 9 * 8 * 2 * 6 + 8 * 2 * 6,
               project = 2.0 * 8 * 5 * 2 * 6;
  EXPECT_EQ(node_flops(node, {inputs, outputs}), expand + depthwise + project);
}

TEST(DepthwiseBlock, SaysWhatIsWrong) {
  const Tensor x = ramp({1, 3, 6, 5}), expand = ramp({8, 3, 1, 1}), window = ramp({8, 1, 3, 3}), none;
  expect_input_error(
      [&] {
        evaluate_op(block(1), {x, expand, none, none, none, none, none});
      },
      "input 3 is required");
  expect_input_error(
      [&] {
        evaluate_op(block(1), {x, none, none, window, none, none, none});
      },
      "input channels and weight channels");
  DepthwiseBlock two = block(1);
  two.expand_epilogue = PointwiseProgram::parse("Add(0,1)", 2);
  expect_input_error([&] { evaluate_op(two, {x, expand, none, window, none, none, none}); }, "has one input");
  expect_input_error(
      [&] {
        evaluate_op(block(1), {ramp({1, 3, 6}), none, none, window, none, none, none});
      },
      "needs data (N, C, H, W)");
}

}  // namespace
}  // namespace lathe
