// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily gather_family();
GeneratedFamily pad_family();
GeneratedFamily resize_family();
GeneratedFamily trilu_family();
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
  EXPECT_EQ(check_generated(pad_family(), cases), 17);
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

TEST(CudaTrilu, BothTriangles) {
  std::vector<LayerCase> cases = {
      {.op = Trilu{true}, .inputs = {{.extents = {2, 5, 6}}}},
      {.op = Trilu{false},
       .inputs = {{.extents = {5, 6}}, {.dtype = DType::Int64, .extents = {}, .low = 1, .high = 2}}}};
  EXPECT_EQ(check_generated(trilu_family(), cases), 2);
}

}  // namespace
}  // namespace lathe::cuda
