// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily gather_family();
GeneratedFamily pad_family();
GeneratedFamily resize_family();
GeneratedFamily trilu_family();
GeneratedFamily value_moves_family();
namespace {

TEST(CudaGather, RowsAndElements) {
  std::vector<LayerCase> cases;
  for (const DType index : {DType::Int64, DType::Int32})
    for (const int64_t axis : {0, 1, -1}) {
      cases.push_back({.op = Gather{axis},
                       .inputs = {{.extents = {5, 6, 8}, .constant = true},
                                  {.dtype = index, .extents = {3, 2}, .low = -5, .high = 3.9}},
                       .allowed_types = {DType::Float16}});
      cases.push_back({.op = GatherElements{axis},
                       .inputs = {{.extents = {5, 6, 8}},
                                  {.dtype = index, .extents = {5, 6, 8}, .low = -5, .high = 3.9}}});
    }
  cases.push_back({.op = Gather{0},
                   .inputs = {{.dtype = DType::Int64, .extents = {7}},
                              {.dtype = DType::Int64, .extents = {}, .low = 2, .high = 3}}});
  EXPECT_EQ(check_generated(gather_family(), cases), 6 * 3 + 1);
}

TEST(CudaPad, ModesAndFormats) {
  std::vector<LayerCase> cases;
  for (const PadMode mode : {PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap})
    cases.push_back({.op = Pad{mode, Shape{Dim(0), Dim(0), Dim(1), Dim(2), Dim(0), Dim(0), Dim(3), Dim(1)}},
                     .inputs = {{.extents = {2, 8, 5, 6}}},
                     .allowed_types = {DType::Float16}});
  cases.push_back({.op = Pad{PadMode::Constant, Shape{Dim(1), Dim(-1), Dim(0), Dim(2)}},
                   .inputs = {{.extents = {3, 4}}, {.absent = true}, {.extents = {}, .constant = true}}});
  // A mode repeats what negative pads have left.
  for (const PadMode mode : {PadMode::Edge, PadMode::Reflect, PadMode::Wrap})
    cases.push_back(
        {.op = Pad{mode, Shape{Dim(2), Dim(-1), Dim(-1), Dim(5)}}, .inputs = {{.extents = {4, 5}}}});
  EXPECT_EQ(check_generated(pad_family(), cases), 20);
}

CheckedInput list_of(const std::vector<int64_t>& values, bool constant = false) {
  const auto count = static_cast<int64_t>(values.size());
  return {.dtype = DType::Int64,
          .extents = {count},
          .constant = constant,
          .value = Tensor::from<int64_t>({count}, values)};
}

TEST(CudaValueMoves, Slices) {
  std::vector<LayerCase> cases;
  const CheckedInput x{.extents = {5, 6, 7}};
  cases.push_back({.op = Slice{}, .inputs = {x, list_of({1, -4}), list_of({4, 1000})}});
  cases.push_back({.op = Slice{},
                   .inputs = {x, list_of({-1, 0}), list_of({-1000, 5}), list_of({-1, 0}), list_of({-2, 2})}});
  cases.push_back(
      {.op = Slice{},
       .inputs = {x, list_of({2, 50}), list_of({3, 1}), list_of({2, 1}, true), list_of({1, -1})}});
  cases.push_back(
      {.op = Slice{}, .inputs = {{.dtype = DType::Bool, .extents = {9}}, list_of({3}), list_of({8})}});
  cases.push_back(
      {.op = Slice{}, .inputs = {{.dtype = DType::Float64, .extents = {9}}, list_of({3}), list_of({8})}});
  EXPECT_EQ(check_generated(value_moves_family(), cases), 5);
}

TEST(CudaValueMoves, Pads) {
  std::vector<LayerCase> cases;
  for (const PadMode mode : {PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap}) {
    cases.push_back({.op = Pad{mode}, .inputs = {{.extents = {3, 5}}, list_of({1, 2, 0, 7})}});
    cases.push_back({.op = Pad{mode},
                     .inputs = {{.extents = {3, 5, 2}},
                                list_of({-1, 2, 4, -2}),
                                {.extents = {}, .low = 3, .high = 4},
                                list_of({-2, 0})}});
  }
  cases.push_back({.op = Pad{},
                   .inputs = {{.dtype = DType::Int32, .extents = {3}},
                              list_of({2, 1}),
                              {.dtype = DType::Int32, .extents = {}, .low = 3, .high = 4}}});
  EXPECT_EQ(check_generated(value_moves_family(), cases), 9);
}

// Lengths are the shape rule's; it takes integers of any size.
TEST(CudaValueMoves, RefusesListsOfSmallIntegers) {
  const auto reasons = generated_refusals(
      value_moves_family(),
      {.op = Slice{},
       .inputs = {{.extents = {5, 6}},
                  list_of({1, 2}),
                  list_of({3, 4}),
                  {.dtype = DType::Int8,
                   .extents = {2},
                   .value = Tensor::from_doubles(DType::Int8, {2}, std::vector<double>{0, 1})},
                  {.absent = true}},
       .expected = {Tensor::from<float>({2, 2}, std::vector<float>(4))}});
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("for the same number of axes"), std::string::npos) << reasons[0];
}

TEST(CudaResize, ModesAndFormats) {
  std::vector<LayerCase> cases;
  for (const CoordinateMode mode :
       {CoordinateMode::HalfPixel, CoordinateMode::AlignCorners, CoordinateMode::Asymmetric,
        CoordinateMode::PytorchHalfPixel, CoordinateMode::HalfPixelSymmetric}) {
    for (const NearestMode nearest :
         {NearestMode::RoundPreferFloor, NearestMode::RoundPreferCeil, NearestMode::Floor, NearestMode::Ceil})
      cases.push_back({.op = Resize{.coordinates = mode, .nearest = nearest, .scales = {1, 1, 2, 1.5}},
                       .inputs = {{.extents = {1, 8, 4, 6}}}});
    cases.push_back({.op = Resize{.mode = ResizeMode::Linear,
                                  .coordinates = mode,
                                  .sizes = Shape{Dim(7), Dim(3)},
                                  .axes = {2, 3}},
                     .inputs = {{.extents = {2, 8, 4, 6}}},
                     .allowed_types = {DType::Float16},
                     .dynamic_batch = true});
  }
  cases.push_back({.op = Resize{.mode = ResizeMode::Cubic, .scales = {1, 1, 2.5, 0.5}},
                   .inputs = {{.extents = {1, 8, 4, 7}}},
                   .allowed_types = {DType::Float16}});
  cases.push_back({.op = Resize{.mode = ResizeMode::Cubic,
                                .coordinates = CoordinateMode::AlignCorners,
                                .cubic_coeff_a = -0.5f,
                                .sizes = Shape{Dim(9)},
                                .axes = {1}},
                   .inputs = {{.extents = {3, 4}}}});
  EXPECT_EQ(check_generated(resize_family(), cases), 5 * (4 * 2 + 4) + 4 + 1);
}

TEST(CudaResize, WhatIsNotPlain) {
  const CheckedInput x{.extents = {2, 5, 7}}, absent{.absent = true};
  const auto floats = [](const std::vector<float>& values) {
    const auto count = static_cast<int64_t>(values.size());
    // Constants get no special numbers, which are no scales.
    return CheckedInput{.extents = {count}, .constant = true, .value = Tensor::from<float>({count}, values)};
  };
  std::vector<LayerCase> cases;
  for (const ResizeMode mode : {ResizeMode::Nearest, ResizeMode::Linear, ResizeMode::Cubic}) {
    cases.push_back({.op = Resize{.mode = mode}, .inputs = {x, absent, floats({1, 1.7f, 0.6f})}});
    cases.push_back(
        {.op = Resize{.mode = mode, .axes = {2, 1}}, .inputs = {x, absent, absent, list_of({3, 9})}});
    cases.push_back({.op = Resize{.mode = mode, .exclude_outside = true},
                     .inputs = {x, absent, floats({1, 0.5f, 2.3f})}});
    for (const AspectPolicy aspect : {AspectPolicy::NotLarger, AspectPolicy::NotSmaller})
      cases.push_back({.op = Resize{.mode = mode, .aspect = aspect, .axes = {1, 2}},
                       .inputs = {x, absent, absent, list_of({4, 9})}});
    cases.push_back({.op = Resize{.mode = mode,
                                  .coordinates = CoordinateMode::TfCropAndResize,
                                  .extrapolation_value = 9,
                                  .sizes = Shape{Dim(4), Dim(5)},
                                  .axes = {1, 2}},
                     .inputs = {x, floats({0.4f, -0.2f, 1.3f, 0.7f})}});
    cases.push_back({.op = Resize{.mode = mode},
                     .inputs = {{.dtype = DType::Float64, .extents = {3, 4}}, absent, floats({1.5f, 0.7f})}});
    cases.push_back({.op = Resize{.mode = mode, .scales = {1, 1.9f}},
                     .inputs = {{.dtype = DType::UInt8, .extents = {3, 40}, .low = 0, .high = 255}}});
    if (mode != ResizeMode::Nearest)
      cases.push_back(
          {.op = Resize{.mode = mode, .exclude_outside = mode == ResizeMode::Cubic, .antialias = true},
           .inputs = {x, absent, floats({1, 0.3f, 0.45f})}});
  }
  cases.push_back({.op = Resize{.nearest = NearestMode::Floor},
                   .inputs = {{.dtype = DType::Int64, .extents = {2, 3}}, absent, floats({2, 3})}});
  EXPECT_GE(check_generated(resize_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaTrilu, BothTriangles) {
  std::vector<LayerCase> cases = {
      {.op = Trilu{true}, .inputs = {{.extents = {2, 5, 6}}}},
      {.op = Trilu{false},
       .inputs = {{.extents = {5, 6}}, {.dtype = DType::Int64, .extents = {}, .low = 1, .high = 2}}}};
  EXPECT_EQ(check_generated(trilu_family(), cases), 2);
}

}  // namespace
}  // namespace lathe::cuda
