// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily gather_elements_tactics();
TacticFamily scatter_tactics();
namespace {

CheckedInput indices(Extents extents, double below, DType type = DType::Int64) {
  return {.dtype = type, .extents = std::move(extents), .low = -below, .high = below - 0.5};
}

TEST(GatherElementsTactics, AxesTypesAndShorterIndices) {
  for (const int64_t axis : {0, 1, 2, -1})
    for (const DType type : {DType::Float32, DType::Float16, DType::Int64, DType::UInt8})
      for (const DType index : {DType::Int64, DType::Int32}) {
        SCOPED_TRACE(axis);
        Extents some = {4, 5, 6};
        some[static_cast<size_t>(axis < 0 ? axis + 3 : axis)] = 9;
        EXPECT_GE(
            check_layer(gather_elements_tactics(),
                        {.op = GatherElements{axis}, .inputs = {{type, {5, 5, 7}}, indices(some, 5, index)}}),
            1);
      }
  EXPECT_GE(check_layer(gather_elements_tactics(),
                        {.op = GatherElements{0}, .inputs = {{.extents = {900}}, indices({1000}, 900)}}),
            1);
}

TEST(GatherElementsTactics, Blocks) {
  const auto check = [](int64_t batch, Extents x, Extents index, double below) {
    EXPECT_GE(check_layer(gather_elements_tactics(),
                          {.op = GatherND{batch}, .inputs = {{.extents = x}, indices(index, below)}}),
              1);
  };
  check(0, {4, 5, 3}, {7, 2}, 4);
  check(0, {4, 5, 3}, {2, 7, 3}, 3);
  check(0, {9}, {30, 1}, 9);
  check(1, {3, 4, 5}, {3, 6, 1}, 4);
  check(2, {2, 3, 4, 5}, {2, 3, 7, 1}, 4);
}

TEST(GatherElementsTactics, RejectsIndexOutOfRange) {
  try {
    check_layer(gather_elements_tactics(),
                {.op = GatherElements{0}, .inputs = {{.extents = {4}}, indices({40}, 5)}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("(GatherElements): index"), std::string::npos) << error.what();
  }
}

constexpr ScatterReduction kReductions[] = {ScatterReduction::None, ScatterReduction::Add,
                                            ScatterReduction::Mul, ScatterReduction::Min,
                                            ScatterReduction::Max};

// How many there are a run may find: none change nothing.
TEST(ScatterTactics, NoUpdates) {
  for (const ScatterReduction reduction : kReductions) {
    EXPECT_GE(check_layer(scatter_tactics(), {.op = ScatterND{reduction},
                                              .inputs = {{.extents = {6, 5, 8}},
                                                         {.dtype = DType::Int64, .extents = {0, 1}},
                                                         {.extents = {0, 5, 8}}}}),
              1);
    EXPECT_GE(check_layer(scatter_tactics(), {.op = ScatterElements{1, reduction},
                                              .inputs = {{.extents = {6, 5, 8}},
                                                         {.dtype = DType::Int64, .extents = {6, 0, 8}},
                                                         {.extents = {6, 0, 8}}}}),
              1);
  }
}

// Many updates meet in each element.
TEST(ScatterTactics, ElementsWithEveryReduction) {
  for (const ScatterReduction reduction : kReductions)
    for (const int64_t axis : {0, 1, 2})
      for (const DType type : {DType::Float32, DType::BFloat16, DType::Int64, DType::UInt8}) {
        SCOPED_TRACE(axis);
        Extents some = {4, 3, 6};
        some[static_cast<size_t>(axis)] = 11;
        EXPECT_GE(
            check_layer(
                scatter_tactics(),
                {.op = ScatterElements{axis, reduction},
                 .inputs = {{type, {5, 4, 7}, false, 0, 4}, indices(some, 4), {type, some, false, 0, 4}}}),
            1);
      }
}

void expect_blocks(ScatterReduction reduction, DType type, const Extents& x, const CheckedInput& index,
                   const Extents& updates) {
  EXPECT_GE(check_layer(scatter_tactics(),
                        {.op = ScatterND{reduction},
                         .inputs = {{type, x, false, 0, 4}, index, {type, updates, false, 0, 4}}}),
            1);
}

constexpr DType kScatteredTypes[] = {DType::Float32,     DType::Float64, DType::BFloat16, DType::Float16,
                                     DType::Int8,        DType::UInt8,   DType::Int16,    DType::UInt16,
                                     DType::Int32,       DType::UInt32,  DType::Int64,    DType::UInt64,
                                     DType::Float8E4M3FN};

TEST(ScatterTactics, BlocksWithEveryReduction) {
  for (const ScatterReduction reduction : kReductions)
    for (const DType type : kScatteredTypes) {
      SCOPED_TRACE(dtype_name(type));
      expect_blocks(reduction, type, {6, 5, 14}, indices({20, 1}, 6), {20, 5, 14});
      expect_blocks(reduction, type, {6, 5}, indices({3, 9, 2}, 5, DType::Int32), {3, 9});
    }
}

// Members share out columns of the large ones, and blocks where those are small.
TEST(ScatterTactics, LargeBlocksAndManySmallOnes) {
  for (const ScatterReduction reduction : kReductions) {
    expect_blocks(reduction, DType::Float32, {3, 5000}, indices({9, 1}, 3), {9, 5000});
    expect_blocks(reduction, DType::Float32, {70, 40}, indices({2000, 1}, 70), {2000, 40});
  }
}

TEST(ScatterTactics, NeighbouringBlocksThatRepeat) {
  std::vector<int64_t> rows;
  for (const int64_t first : {2, 0, 5, 2, -7})
    for (int64_t i = 0; i < 6; ++i) rows.push_back(first + i);
  const auto count = static_cast<int64_t>(rows.size());
  for (const ScatterReduction reduction : kReductions)
    expect_blocks(
        reduction, DType::Float32, {11, 3},
        {.dtype = DType::Int64, .extents = {count, 1}, .value = Tensor::from<int64_t>({count, 1}, rows)},
        {count, 3});
}

TEST(ScatterTactics, RejectsIndexOutOfRange) {
  try {
    check_layer(
        scatter_tactics(),
        {.op = ScatterND{}, .inputs = {{.extents = {4, 2}}, indices({40, 1}, 5), {.extents = {40, 2}}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("(ScatterND): index"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lathe::cpu
