// SPDX-License-Identifier: Apache-2.0

#include "ops/cost.h"

#include <gtest/gtest.h>

#include "ops/build.h"
#include "ops/evaluate_op.h"

namespace lathe {
namespace {

TEST(Cost, CountsOperandsInTheirOwnTypes) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, {Dim::symbol("n"), 3});
  const ValueId w = editor.add_constant("w", ramp({3, 4}));
  append_node(editor, "product", MatMul{}, {x, w}, {});
  const LayerCost cost = layer_cost(graph, graph.order()[0], {{"n", 2}});
  EXPECT_EQ(cost.flops, 48);
  EXPECT_EQ(cost.bytes_read, 4 * (6 + 12));
  EXPECT_EQ(cost.bytes_written, 4 * 8);
  EXPECT_THROW(layer_cost(graph, graph.order()[0], {}), Error);
}

TEST(Cost, LookUpsReadWhatTheyGive) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId table = editor.add_constant("table", ramp({1000, 8}));
  const ValueId ids = editor.add_input("ids", DType::Int64, {5});
  append_node(editor, "embedding", Gather{0}, {table, ids}, {});
  const LayerCost cost = layer_cost(graph, graph.order()[0], {});
  EXPECT_EQ(cost.bytes_read, 5 * 8 * 4 + 5 * 8);
  EXPECT_EQ(cost.bytes_written, 5 * 8 * 4);
}

TEST(Cost, UnknownAmountsCountWithTheirBound) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, {Dim::symbol("n")});
  append_node(editor, "nonzero", NonZero{}, {x}, {});
  EXPECT_EQ(layer_cost(graph, graph.order()[0], {{"n", 10}}).bytes_written, 8 * 10);
}

}  // namespace
}  // namespace lathe
