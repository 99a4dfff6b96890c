// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/check/tree_case.h"
#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily topk_tactics();
TacticFamily lines_tactics();
TacticFamily nonzero_tactics();
TacticFamily non_max_suppression_tactics();
TacticFamily tree_tactics();
namespace {

constexpr DType kSelectTypes[] = {DType::Float32, DType::Float16, DType::Float64, DType::Int64, DType::UInt8};

// Numbers repeat, so that ties are met.
CheckedInput numbers(DType type, Extents extents) {
  const bool has_sign = type != DType::UInt8;
  return {.dtype = type, .extents = std::move(extents), .low = has_sign ? -8.0 : 0.0, .high = 8.5};
}
CheckedInput constant(double value) {
  return {.dtype = DType::Int64, .extents = {1}, .constant = true, .low = value, .high = value + 0.5};
}

TEST(TreeTactics, RowsTreesTargetsAndAggregates) {
  for (const int64_t rows : {0, 1, 3, 8, 17, 200})
    for (const int64_t trees : {1, 7, 60})
      for (const int64_t targets : {1, 3})
        EXPECT_GE(check_layer(tree_tactics(), tree_case({.rows = rows, .trees = trees, .targets = targets})),
                  1);
  for (const TreeAggregate aggregate : {TreeAggregate::Average, TreeAggregate::Min, TreeAggregate::Max})
    for (const int64_t rows : {2, 30})
      EXPECT_GE(check_layer(tree_tactics(), tree_case({.rows = rows, .targets = 4, .aggregate = aggregate})),
                1);
}

TEST(TreeTactics, ComparisonsAndTypes) {
  for (const int modes : {0, 1, 2})
    for (const DType type : {DType::Float32, DType::Float64})
      EXPECT_GE(check_layer(tree_tactics(), tree_case({.rows = 40, .modes = modes, .type = type})), 1);
  const std::vector<std::string> why =
      refusals(tree_tactics(), tree_case({.rows = 40, .type = DType::Float16}));
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].find("rows of float16 instead of 32 or 64 bit floats"), std::string::npos) << why[0];
}

TEST(TopKTactics, TypesAxesAndOrders) {
  for (const DType type : kSelectTypes)
    for (const int64_t axis : {0, 1, -1})
      for (const bool largest : {false, true}) {
        SCOPED_TRACE(dtype_name(type));
        for (const int64_t k : {1, 3, 6})
          EXPECT_GE(check_layer(topk_tactics(),
                                {.op = TopK{.axis = axis, .largest = largest},
                                 .inputs = {numbers(type, {6, 7, 9}), constant(static_cast<double>(k))},
                                 .outputs = 2}),
                    1);
      }
}

TEST(TopKTactics, LongLines) {
  for (const bool largest : {true, false})
    for (const double k : {1.0, 5.0, 32.0, 33.0, 300.0, 1999.0})
      EXPECT_GE(check_layer(topk_tactics(), {.op = TopK{.largest = largest},
                                             .inputs = {{.extents = {2, 2000}}, constant(k)},
                                             .outputs = 2}),
                1);
}

TEST(LinesTactics, LargestAndSmallest) {
  for (const DType type : kSelectTypes)
    for (const int64_t axis : {0, 1, -1})
      for (const bool last : {false, true})
        for (const bool max : {false, true}) {
          const ArgReduce op{.max = max, .axis = axis, .keepdims = max, .select_last_index = last};
          EXPECT_GE(check_layer(lines_tactics(), {.op = op, .inputs = {numbers(type, {5, 8, 70})}}), 1);
        }
}

// More lines than go together, lines of several blocks, many equal elements.
TEST(LinesTactics, ManyFloats) {
  for (const bool last : {false, true})
    for (const bool max : {false, true})
      for (const Extents& x : {Extents{2, 5, 600}, Extents{3, 500}, Extents{1, 129, 2}})
        EXPECT_GE(
            check_layer(lines_tactics(), {.op = ArgReduce{.max = max, .axis = 1, .select_last_index = last},
                                          .inputs = {{.extents = x, .low = 0, .high = 0.1}}}),
            1);
  for (const bool reverse : {false, true})
    EXPECT_GE(check_layer(lines_tactics(), {.op = CumSum{.reverse = reverse},
                                            .inputs = {{.extents = {2, 5, 600}}, constant(1.0)}}),
              1);
}

TEST(LinesTactics, RunningSumsAndProducts) {
  for (const DType type : kSelectTypes)
    for (const double axis : {0.0, 1.0, 2.0})
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true}) {
          EXPECT_GE(check_layer(lines_tactics(), {.op = CumSum{exclusive, reverse},
                                                  .inputs = {numbers(type, {3, 7, 90}), constant(axis)}}),
                    1);
          EXPECT_GE(check_layer(lines_tactics(), {.op = CumProd{exclusive, reverse},
                                                  .inputs = {numbers(type, {2, 5, 4}), constant(axis)}}),
                    1);
        }
}

TEST(NonZeroTactics, TypesAndRanks) {
  for (const DType type : {DType::Float32, DType::Int64, DType::Bool})
    for (const Extents& x : {Extents{}, Extents{300}, Extents{4, 5}, Extents{3, 400, 2}, Extents{2, 3, 4, 5}})
      EXPECT_GE(
          check_layer(nonzero_tactics(),
                      {.op = NonZero{}, .inputs = {{.dtype = type, .extents = x, .low = 0, .high = 1.9}}}),
          1);
}

// Boxes lie on a coarse grid, so that many overlap and many scores are equal.
TEST(NonMaxSuppressionTactics, LimitsAndBoxes) {
  const CheckedInput boxes{.extents = {2, 60, 4}, .low = 0, .high = 4},
      scores{.extents = {2, 3, 60}, .low = 0, .high = 1};
  const auto threshold = [](double value) {
    return CheckedInput{.extents = {1}, .constant = true, .low = value, .high = value + 1e-6};
  };
  for (const bool center : {false, true})
    for (const double most : {1.0, 5.0, 100.0}) {
      LayerCase layer{.op = NonMaxSuppression{center},
                      .inputs = {boxes, scores, constant(most), threshold(0.25)}};
      EXPECT_GE(check_layer(non_max_suppression_tactics(), layer), 1);
      layer.inputs.push_back(threshold(0.5));
      EXPECT_GE(check_layer(non_max_suppression_tactics(), layer), 1);
    }
}

}  // namespace
}  // namespace lathe::cpu
