// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily bit_cast_family();
GeneratedFamily fill_family();
GeneratedFamily gather_nd_family();
GeneratedFamily lrn_family();
GeneratedFamily one_hot_family();
GeneratedFamily reverse_sequence_family();
GeneratedFamily scan_family();
namespace {

CheckedInput constant(double value, DType type = DType::Int64) {
  return {.dtype = type, .extents = {}, .constant = true, .low = value, .high = value + 1e-6};
}

TEST(CudaGatherND, BlocksAndBatches) {
  std::vector<LayerCase> cases;
  const auto add = [&](int64_t batch, Extents x, Extents index, double below, DType type = DType::Float32) {
    cases.push_back(
        {.op = GatherND{batch}, .inputs = {{.dtype = type, .extents = x}, indices(index, below)}});
  };
  add(0, {4, 5, 3}, {7, 2}, 4);
  add(0, {4, 5, 3}, {2, 7, 3}, 3, DType::Float16);
  add(0, {9}, {30, 1}, 9, DType::Int64);
  add(1, {3, 4, 8}, {3, 6, 1}, 4);
  add(2, {2, 3, 4, 5}, {2, 3, 7, 1}, 4, DType::Int8);
  add(1, {3, 1, 1}, {3, 1, 2}, 1, DType::Bool);
  cases.push_back({.op = GatherND{1},
                   .inputs = {{.extents = {3, 4, 5}}, indices({3, 2, 1}, 4, DType::Int32)},
                   .dynamic_batch = true});
  EXPECT_EQ(check_generated(gather_nd_family(), cases), 7);
}

// What lies outside is zero, and a length outside is none or all of the steps.
TEST(CudaGatherND, IndicesOutside) {
  const Tensor x = Tensor::from<float>({4}, std::vector<float>{1, 2, 3, 4});
  const Tensor places = Tensor::from<int64_t>({4, 1}, std::vector<int64_t>{4, -5, -4, 3});
  EXPECT_EQ(check_generated(gather_nd_family(),
                            {{.op = GatherND{},
                              .inputs = {{.extents = {4}, .value = x},
                                         {.dtype = DType::Int64, .extents = {4, 1}, .value = places}},
                              .expected = {Tensor::from<float>({4}, std::vector<float>{0, 0, 1, 4})}}}),
            1);
  const Tensor rows = Tensor::from<float>({2, 2}, std::vector<float>{1, 2, 3, 4});
  const Tensor lengths = Tensor::from<int64_t>({2}, std::vector<int64_t>{-3, 9});
  EXPECT_EQ(check_generated(reverse_sequence_family(),
                            {{.op = ReverseSequence{0, 1},
                              .inputs = {{.extents = {2, 2}, .value = rows},
                                         {.dtype = DType::Int64, .extents = {2}, .value = lengths}},
                              .expected = {Tensor::from<float>({2, 2}, std::vector<float>{1, 2, 4, 3})}}}),
            1);
}

// Some indices lie outside of the depth.
TEST(CudaOneHot, AxesAndTypes) {
  std::vector<LayerCase> cases;
  for (const int64_t axis : {0, 1, -1})
    for (const DType type : {DType::Float32, DType::Int64, DType::Bool, DType::Float16})
      cases.push_back({.op = OneHot{axis},
                       .inputs = {indices({4, 7}, 9, axis == 1 ? DType::Int32 : DType::Int64),
                                  constant(6),
                                  {.dtype = type, .extents = {2}, .low = -1, .high = 2}}});
  cases.push_back(
      {.op = OneHot{},
       .inputs = {{.extents = {}, .low = 2, .high = 3}, constant(5, DType::Float32), {.extents = {2}}}});
  EXPECT_EQ(check_generated(one_hot_family(), cases), 13);
}

TEST(CudaReverseSequence, AxesAndTypes) {
  const auto lengths = [](int64_t items, double most) {
    return CheckedInput{.dtype = DType::Int64, .extents = {items}, .low = 0, .high = most + 0.9};
  };
  std::vector<LayerCase> cases = {
      {.op = ReverseSequence{1, 0}, .inputs = {{.extents = {7, 4, 8}}, lengths(4, 7)}},
      {.op = ReverseSequence{0, 1},
       .inputs = {{.dtype = DType::Int32, .extents = {3, 5}}, lengths(3, 5)},
       .dynamic_batch = false},
      {.op = ReverseSequence{2, 1},
       .inputs = {{.dtype = DType::Float16, .extents = {2, 5, 3}}, lengths(3, 5)}},
      {.op = ReverseSequence{0, 2}, .inputs = {{.extents = {1, 3, 1}}, lengths(1, 1)}}};
  EXPECT_EQ(check_generated(reverse_sequence_family(), cases), 4);
}

TEST(CudaFill, ValuesRangesAndShapes) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Float32, DType::Float16, DType::Int64, DType::UInt8, DType::Bool})
    for (const Shape& shape : {Shape{}, Shape{3, 5}, Shape{2, 8}})
      cases.push_back({.op = Fill{.shape = shape, .dtype = type, .value = 1}, .inputs = {}});
  cases.push_back({.op = Fill{.shape = Shape{3}, .value = -0.5}, .inputs = {}});
  cases.push_back({.op = Range{}, .inputs = {constant(2), constant(20), constant(3)}});
  cases.push_back({.op = Range{}, .inputs = {constant(2), constant(-20), constant(-3)}});
  cases.push_back({.op = Range{},
                   .inputs = {constant(0.1, DType::Float32), constant(900, DType::Float32),
                              constant(0.7, DType::Float32)}});
  cases.push_back({.op = ShapeTensor{.dims = {Dim(4), Dim(int64_t{1} << 40), Dim(7)}}, .inputs = {}});
  cases.push_back({.op = ShapeTensor{.dims = {Dim(4)}, .scalar = true}, .inputs = {}});
  cases.push_back({.op = ShapeOf{.start = 1}, .inputs = {{.extents = {4, 5, 6}}}});
  cases.push_back({.op = ShapeOf{.start = -3, .end = Ints{-1}},
                   .inputs = {{.extents = {4, 5, 6}}},
                   .dynamic_batch = true});
  EXPECT_EQ(check_generated(fill_family(), cases), 23);
}

// Numbers that only the run brings.
TEST(CudaFill, SizesFromValues) {
  const auto number = [](double value, DType type) {
    return CheckedInput{.dtype = type, .extents = {}, .low = value, .high = value + 1e-6};
  };
  const Tensor shape = Tensor::from<int64_t>({2}, std::vector<int64_t>{3, 5});
  std::vector<LayerCase> cases = {
      {.op = Fill{.value = 2}, .inputs = {{.dtype = DType::Int64, .extents = {2}, .value = shape}}},
      {.op = Range{},
       .inputs = {number(2, DType::Int64), number(20, DType::Int64), number(3, DType::Int64)}}};
  EXPECT_EQ(check_generated(fill_family(), cases), 2);
  EXPECT_EQ(check_generated(one_hot_family(),
                            {{.op = OneHot{},
                              .inputs = {indices({4, 3}, 6), number(5, DType::Int64), {.extents = {2}}}}}),
            1);
}

TEST(CudaBitCast, Sizes) {
  std::vector<LayerCase> cases = {
      {.op = BitCast{DType::Int32}, .inputs = {{.extents = {3, 5}}}},
      {.op = BitCast{DType::Float16},
       .inputs = {{.dtype = DType::UInt16, .extents = {8}, .low = 0, .high = 900}}},
      {.op = BitCast{DType::Float64}, .inputs = {{.dtype = DType::Int64, .extents = {7}}}},
      {.op = BitCast{DType::Bool}, .inputs = {{.dtype = DType::Int8, .extents = {16}}}}};
  EXPECT_EQ(check_generated(bit_cast_family(), cases), 4);
}

TEST(CudaLrn, WindowsAndFormats) {
  std::vector<LayerCase> cases;
  for (const int64_t size : {1, 2, 5, 40})
    cases.push_back({.op = Lrn{.size = size, .alpha = 0.3f, .bias = 1.5f},
                     .inputs = {{.extents = {2, 7, 4, 2}}},
                     .allowed_types = {DType::Float16, DType::BFloat16}});
  cases.push_back({.op = Lrn{.size = 3}, .inputs = {{.extents = {5, 7}}}});
  EXPECT_EQ(check_generated(lrn_family(), cases), 4 * 6 + 1);
}

TEST(CudaScan, AxesTypesAndDirections) {
  std::vector<LayerCase> cases;
  for (const double axis : {0.0, 1.0, -1.0})
    for (const bool exclusive : {false, true})
      for (const bool reverse : {false, true}) {
        const DType type = axis == 1 ? DType::Int32 : axis == 0 ? DType::Float16 : DType::Float32;
        cases.push_back({.op = CumSum{exclusive, reverse},
                         .inputs = {{.dtype = type, .extents = {3, 7, 90}}, constant(axis)},
                         .rounding = 16});
        cases.push_back({.op = CumProd{exclusive, reverse},
                         .inputs = {{.dtype = type, .extents = {2, 5, 4}}, constant(axis)},
                         .rounding = 16});
      }
  EXPECT_GE(check_generated(scan_family(), cases), 24);
}

CheckedInput number(int64_t value) {
  return {
      .dtype = DType::Int64, .extents = {}, .value = Tensor::from<int64_t>({}, std::vector<int64_t>{value})};
}

TEST(CudaScan, AxesOfTheRun) {
  std::vector<LayerCase> cases;
  for (const int64_t axis : {0, 1, -1})
    for (const bool reverse : {false, true}) {
      cases.push_back({.op = CumSum{!reverse, reverse}, .inputs = {{.extents = {3, 7, 9}}, number(axis)}});
      cases.push_back({.op = CumProd{reverse, reverse},
                       .inputs = {{.dtype = DType::Float64, .extents = {2, 5, 4}}, number(axis)},
                       .tolerance = 1e-14});
    }
  // No such axis.
  cases.push_back({.op = CumSum{},
                   .inputs = {{.extents = {2, 3}}, number(2)},
                   .expected = {Tensor::from<float>({2, 3}, std::vector<float>(6))}});
  EXPECT_EQ(check_generated(scan_family(), cases), 13);
}

TEST(CudaScan, Doubles) {
  EXPECT_GE(
      check_generated(scan_family(), {{.op = CumSum{},
                                       .inputs = {{.dtype = DType::Float64, .extents = {3, 90}}, constant(1)},
                                       .tolerance = 1e-14}}),
      1);
}

// Lines that several blocks share, and tiles that end in the middle.
TEST(CudaScan, LongLines) {
  std::vector<LayerCase> cases;
  for (const Extents& extents : {Extents{2, 9001}, Extents{1, 4097, 2}})
    for (const bool reverse : {false, true})
      cases.push_back({.op = CumSum{reverse, reverse}, .inputs = {{.extents = extents}, constant(1)}});
  cases.push_back({.op = CumSum{},
                   .inputs = {{.dtype = DType::Int64, .extents = {3, 5000}}, constant(1)},
                   .dynamic_batch = true});
  EXPECT_GE(check_generated(scan_family(), cases), 10);
}

}  // namespace
}  // namespace lathe::cuda
