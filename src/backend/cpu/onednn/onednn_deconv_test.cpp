// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/tactic_check.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe::cpu {
namespace {

Tensor deconv_wave(const Extents& extents) {
  std::vector<float> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 0.1f * static_cast<float>(static_cast<int>(i * 7 % 13) - 6);
  return Tensor::from<float>(extents, values);
}

TacticCheckResult expect_right_deconv(const ConvTranspose& op, const Shape& x, const Extents& w,
                                      const std::string& epilogue = "", const SymbolRanges& ranges = {}) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId y =
      append_node(editor, "deconv", op,
                  {editor.add_input("x", DType::Float32, x), editor.add_constant("w", deconv_wave(w)),
                   editor.add_constant("b", deconv_wave({w[1] * op.groups}))},
                  {})[0];
  const NodeId node = graph.value(y).producer;
  if (!epilogue.empty()) editor.set_epilogue(node, PointwiseProgram::parse(epilogue, 1), {});
  return cpu::expect_right(graph, node, {.runner = "OnednnDeconvolution", .ranges = ranges});
}

TEST(OnednnDeconv, StridesPadsAndOutputPadding) {
  expect_right_deconv({.kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}},
                      {1, 32, 9, 8}, {32, 16, 3, 3});
  expect_right_deconv({.kernel = {2, 2}, .strides = {2, 2}}, {2, 20, 7, 6}, {20, 12, 2, 2}, "Relu(0)");
  expect_right_deconv({.kernel = {3, 3},
                       .strides = {2, 2},
                       .pads_begin = {1, 1},
                       .pads_end = {1, 1},
                       .output_padding = {1, 1}},
                      {1, 16, 9, 8}, {16, 16, 3, 3});
}

TEST(OnednnDeconv, GroupsAndDynamicBatch) {
  expect_right_deconv(
      {.kernel = {4, 4}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .groups = 2},
      {1, 32, 6, 6}, {32, 16, 4, 4});
  expect_right_deconv({.kernel = {3, 3}}, {Dim::symbol("n"), 16, 6, 6}, {16, 16, 3, 3}, "Sigmoid(0)",
                      {{"n", {1, 3, 4}}});
}

}  // namespace
}  // namespace lathe::cpu
