// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/tactic_check.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe::cpu {
namespace {

void expect_right_pool(const Pool& pool, const Shape& shape, bool bf16 = false,
                       const std::string& epilogue = "", const SymbolRanges& ranges = {}) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, shape);
  const ValueId y = append_node(editor, "pool", pool, {x}, {})[0];
  const NodeId node = graph.value(y).producer;
  if (!epilogue.empty()) editor.set_epilogue(node, PointwiseProgram::parse(epilogue, 1), {});
  if (bf16) editor.set_allowed_types(node, {DType::BFloat16});
  editor.mark_output(y);
  cpu::expect_right(graph, node, {.runner = "OnednnPool", .ranges = ranges});
}

TEST(OnednnPool, Max) {
  const Pool pool{
      .kind = PoolKind::Max, .kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  expect_right_pool(pool, {1, 64, 40, 38});
  expect_right_pool(pool, {3, 20, 21, 22});
  expect_right_pool(pool, {1, 64, 40, 38}, true);
  Pool same = pool;
  same.auto_pad = AutoPad::SameUpper;
  expect_right_pool(same, {1, 32, 30, 31});
  Pool ceil = pool;
  ceil.ceil_mode = true;
  ceil.pads_begin = ceil.pads_end = {0, 0};
  expect_right_pool(ceil, {1, 32, 30, 32});
}

// oneDNN's comparisons pass over NaN, and say so; every other family keeps it.
TEST(OnednnPool, MaximaAreMarkedAsLosingNan) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, {1, 32, 12, 13});
  const Pool pool{.kind = PoolKind::Max, .kernel = {3, 3}, .strides = {2, 2}};
  const ValueId y = append_node(editor, "pool", pool, {x}, {})[0];
  editor.mark_output(y);
  const auto result = check_tactics(graph, graph.value(y).producer, {.with_nan = true});
  for (const std::string& failure : result.failures) ADD_FAILURE() << failure;
  EXPECT_TRUE(ran(result, "pool_avx2") || ran(result, "pool_avx512"));
  EXPECT_FALSE(result.left_out.empty());
  for (const std::string& tactic : result.left_out) EXPECT_EQ(tactic.rfind("onednn_pool", 0), 0u) << tactic;
}

TEST(OnednnPool, Average) {
  Pool pool{.kind = PoolKind::Average,
            .kernel = {3, 3},
            .strides = {1, 1},
            .pads_begin = {1, 1},
            .pads_end = {1, 1}};
  expect_right_pool(pool, {2, 40, 20, 21});
  pool.count_include_pad = true;
  expect_right_pool(pool, {2, 40, 20, 21});
  expect_right_pool({.kind = PoolKind::Average, .kernel = {7, 7}}, {1, 512, 7, 7});
  expect_right_pool({.kind = PoolKind::Average, .kernel = {7, 7}}, {1, 100, 7, 7}, true);
  expect_right_pool({.kind = PoolKind::Average, .kernel = {3, 3}, .strides = {2, 2}, .ceil_mode = true},
                    {1, 32, 30, 32});
}

TEST(OnednnPool, OtherRanksEpiloguesAndDynamicBatch) {
  expect_right_pool({.kind = PoolKind::Max, .kernel = {3}, .strides = {2}}, {2, 32, 50});
  expect_right_pool({.kind = PoolKind::Average, .kernel = {2, 2, 2}, .strides = {2, 2, 2}}, {1, 16, 8, 8, 9});
  expect_right_pool({.kind = PoolKind::Average, .kernel = {7, 7}}, {1, 50, 7, 7}, false, "Sigmoid(0)");
  expect_right_pool({.kind = PoolKind::Max, .kernel = {2, 2}, .strides = {2, 2}},
                    {Dim::symbol("n"), 32, 24, 24}, false, "", {{"n", {1, 2, 5}}});
}

}  // namespace
}  // namespace lathe::cpu
