// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily movement_tactics();
TacticFamily run_time_slice_tactics();
TacticFamily gather_tactics();
namespace {

TEST(MovementTactics, EveryPermutation) {
  Ints perm = {0, 1, 2, 3};
  do {
    for (const DType type : {DType::Float32, DType::Float16, DType::Int64, DType::UInt8}) {
      SCOPED_TRACE(to_string(perm));
      EXPECT_GE(check_layer(movement_tactics(), {.op = Transpose{perm}, .inputs = {{type, {3, 10, 5, 18}}}}),
                1);
    }
  } while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(MovementTactics, LargeTransposition) {
  EXPECT_GE(check_layer(movement_tactics(), {.op = Transpose{{1, 0}}, .inputs = {{.extents = {131, 203}}}}),
            1);
  EXPECT_GE(check_layer(movement_tactics(), {.op = Transpose{{0, 2, 1}},
                                             .inputs = {{.extents = {2, 65, 72}}},
                                             .allowed_types = {DType::BFloat16}}),
            2);
}

TEST(MovementTactics, ConcatSplitSliceInEveryFormat) {
  for (const int64_t axis : {0, 1, 2, 3, -1, -3}) {
    SCOPED_TRACE(axis);
    Extents a = {2, 32, 6, 5}, b = a;
    b[static_cast<size_t>(axis < 0 ? axis + 4 : axis)] = 16;
    EXPECT_GE(check_layer(movement_tactics(),
                          {.op = Concat{axis}, .inputs = {{.extents = a}, {.extents = b}, {.extents = a}}}),
              3);
    Extents whole = {2, 32, 3, 4};
    whole[static_cast<size_t>(axis < 0 ? axis + 4 : axis)] = 32;
    EXPECT_GE(
        check_layer(movement_tactics(),
                    {.op = Split{axis, {Dim(16), Dim(16)}}, .inputs = {{.extents = whole}}, .outputs = 2}),
        3);
  }
  EXPECT_GE(
      check_layer(movement_tactics(),
                  {.op = Split{1, {Dim(3), Dim(5)}}, .inputs = {{.extents = {2, 8, 3, 3}}}, .outputs = 2}),
      2);
  const auto slice = [](Ints starts, Ints ends, Ints axes, Ints steps) {
    return Slice{.starts = to_shape(starts), .ends = to_shape(ends), .axes = axes, .steps = steps};
  };
  for (const Slice& op :
       {slice({1, 2}, {9, 5}, {2, 3}, {1, 1}), slice({16}, {32}, {1}, {1}), slice({1}, {8}, {3}, {3}),
        slice({9}, {-1}, {2}, {-2}), slice({3, 1}, {17, 2}, {1, 0}, {1, 1})})
    EXPECT_GE(check_layer(movement_tactics(), {.op = op, .inputs = {{.extents = {2, 48, 10, 9}}}}), 2);
}

TEST(MovementTactics, ExpandAndDepthToSpace) {
  EXPECT_GE(check_layer(movement_tactics(),
                        {.op = Expand{to_shape(Extents{3, 4, 5, 17})}, .inputs = {{.extents = {4, 1, 17}}}}),
            1);
  EXPECT_GE(check_layer(movement_tactics(),
                        {.op = Expand{to_shape(Extents{3, 4, 5})}, .inputs = {{.extents = {4, 1}}}}),
            1);
  for (const bool crd : {false, true}) {
    EXPECT_GE(check_layer(movement_tactics(),
                          {.op = DepthToSpace{2, crd, false}, .inputs = {{.extents = {2, 12, 3, 5}}}}),
              1);
    if (!crd) {
      EXPECT_GE(check_layer(movement_tactics(),
                            {.op = DepthToSpace{2, crd, true}, .inputs = {{.extents = {2, 3, 6, 10}}}}),
                1);
    }
  }
}

// Shapes, repeats and bounds that a run computes: the sizes of results are known when a layer is prepared.
TEST(MovementTactics, OperandsOfRunTime) {
  const auto numbers = [](const Ints& values, DType type = DType::Int64) {
    const auto count = static_cast<int64_t>(values.size());
    const std::vector<double> elements(values.begin(), values.end());
    return CheckedInput{
        .dtype = type, .extents = {count}, .value = Tensor::from_doubles(type, {count}, elements)};
  };
  const auto constant = [&](const Ints& values) {
    CheckedInput input = numbers(values);
    input.constant = true;
    return input;
  };
  EXPECT_GE(
      check_layer(movement_tactics(), {.op = Expand{}, .inputs = {{.extents = {4, 1}}, numbers({3, 4, 5})}}),
      1);
  EXPECT_GE(check_layer(movement_tactics(), {.op = Tile{}, .inputs = {{.extents = {4, 3}}, numbers({2, 3})}}),
            1);
  const CheckedInput x = {.extents = {6, 8, 5}};
  const auto check = [&](std::vector<CheckedInput> inputs) {
    EXPECT_GE(check_layer(run_time_slice_tactics(), {.op = Slice{}, .inputs = std::move(inputs)}), 1);
  };
  check({x, numbers({2}), numbers({4})});
  check({x, numbers({-3, 1}, DType::Int32), numbers({100, -1}, DType::Int32), constant({1, 2})});
  check({x, numbers({7}), numbers({-100}), constant({1}), constant({-3})});
  check({x, numbers({4}), numbers({4})});
  const auto reasons = refusals(run_time_slice_tactics(),
                                {.op = Slice{}, .inputs = {x, numbers({2}), numbers({4}), numbers({0})}});
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("axes or steps are known only at run time"), std::string::npos) << reasons[0];
}

TEST(MovementTactics, SaysWhyNot) {
  const auto reasons =
      refusals(movement_tactics(),
               {.op = Split{1, {Dim(3), Dim(5)}}, .inputs = {{.extents = {2, 8, 3, 3}}}, .outputs = 2});
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("not cut at whole blocks"), std::string::npos) << reasons[0];
}

TEST(GatherTactics, RowsAndElements) {
  for (const int64_t axis : {0, 1, -1})
    for (const DType index : {DType::Int64, DType::Int32}) {
      LayerCase layer{
          .op = Gather{axis},
          .inputs = {{.extents = {9, 11, 10}}, {.dtype = index, .extents = {3, 4}, .low = -9, .high = 8.5}},
          .allowed_types = {DType::BFloat16}};
      EXPECT_GE(check_layer(gather_tactics(), layer), 2);
    }
  EXPECT_GE(
      check_layer(gather_tactics(), {.op = Gather{0},
                                     .inputs = {{.extents = {100, 33}, .constant = true},
                                                {.dtype = DType::Int64, .extents = {}, .low = 0, .high = 99}},
                                     .allowed_types = {DType::BFloat16}}),
      2);
}

// Windows of a sequence: runs of positions, found once where there are many sequences.
TEST(GatherTactics, RunsOfPositions) {
  std::vector<double> positions;
  for (int64_t tap = 0; tap < 3; ++tap)
    for (int64_t i = 0; i < 9; ++i) positions.push_back(static_cast<double>(i + tap - (i == 8 ? 11 : 0)));
  for (const int64_t sequences : {1, 40})
    for (const int64_t inner : {1, 5}) {
      const LayerCase layer{.op = Gather{1},
                            .inputs = {{.extents = {sequences, 11, inner}},
                                       {.dtype = DType::Int64,
                                        .extents = {3, 9},
                                        .value = Tensor::from_doubles(DType::Int64, {3, 9}, positions)}}};
      EXPECT_GE(check_layer(gather_tactics(), layer), 1);
    }
}

TEST(GatherTactics, RejectsIndexOutOfRange) {
  try {
    check_layer(
        gather_tactics(),
        {.op = Gather{0},
         .inputs = {{.extents = {4, 8}}, {.dtype = DType::Int64, .extents = {40}, .low = 0, .high = 4.5}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("(Gather): index 4 is outside [-4, 3]"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lathe::cpu
