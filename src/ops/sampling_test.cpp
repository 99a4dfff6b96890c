// SPDX-License-Identifier: Apache-2.0
//
// GridSample, RoiAlign, MaxRoiPool, DeformConv and Col2Im.
#include <cmath>
#include <limits>

#include "ops/op_test.h"

namespace lathe {
namespace {

// Samples the image [[0, 1], [2, 3]] at one (x, y).
double sampled(const GridSample& op, float x, float y) {
  return run_op(op, {f32s({1, 1, 2, 2}, {0, 1, 2, 3}), f32s({1, 1, 1, 2}, {x, y})})[0].to_doubles()[0];
}

TEST(GridSampleOp, CornersAndTheMiddle) {
  const GridSample aligned{.align_corners = true};
  EXPECT_NEAR(sampled(aligned, -1, -1), 0, 1e-6);
  EXPECT_NEAR(sampled(aligned, 1, -1), 1, 1e-6);
  EXPECT_NEAR(sampled(aligned, -1, 1), 2, 1e-6);
  EXPECT_NEAR(sampled(aligned, 0, 0), 1.5, 1e-6);
  // Without: -1 is the border of the corner's pixel, half of whose neighbours are outside in both dims.
  EXPECT_NEAR(sampled({}, 1, 1), 3.0 / 4, 1e-6);
  EXPECT_NEAR(sampled({.padding = GridPadding::Border}, 1, 1), 3, 1e-6);
  EXPECT_NEAR(sampled({.padding = GridPadding::Reflection}, 1, 1), 3, 1e-6);
  EXPECT_NEAR(sampled({.mode = ResizeMode::Nearest}, 0.4f, -0.4f), 1, 1e-6);
}

TEST(GridSampleOp, PlacesThatAreNoNumbersOrFarAway) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const ResizeMode mode : {ResizeMode::Nearest, ResizeMode::Linear, ResizeMode::Cubic}) {
    for (const float x : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 1e30f, -1e30f}) {
      EXPECT_EQ(sampled({.mode = mode}, x, 0), 0) << x;
      for (const GridPadding padding : {GridPadding::Border, GridPadding::Reflection})
        EXPECT_TRUE(std::isfinite(sampled({.mode = mode, .padding = padding}, x, 0))) << x;
    }
  }
}

TEST(GridSampleOp, VolumesAndSymbols) {
  const auto y = run_op(GridSample{.align_corners = true},
                        {counting({1, 1, 2, 2, 2}), f32s({1, 1, 1, 1, 3}, {-1, 1, 1})});
  EXPECT_EQ(y[0].to_doubles(), (Numbers{6}));  // x is innermost: [1][1][0]
  const Dim n = Dim::symbol("n");
  EXPECT_EQ(infer_values(GridSample{},
                         {typed(DType::Float32, {n, 3, 8, 8}), typed(DType::Float32, {n, 4, 5, 2})})[0]
                .shape,
            (Shape{n, 3, 4, 5}));
}

TEST(GridSampleOp, WrongShapesAreRefused) {
  const auto error = [](const Extents& x, const Extents& grid) {
    return input_error([&] {
      run_op(GridSample{}, {Tensor::allocate(DType::Float32, x), Tensor::allocate(DType::Float32, grid)});
    });
  };
  expect_says(error({1, 1, 4}, {1, 1, 1, 2}), "the same rank of at least 3");
  expect_says(error({1, 1, 4, 4}, {2, 1, 1, 2}),
              "the shape of the grid is [2, 1, 1, 2], expected [1, 1, 1, 2]");
  expect_says(error({1, 1, 4, 4}, {1, 1, 1, 3}), "expected [1, 1, 1, 2]");
  expect_says(error({1, 1, 0, 4}, {1, 1, 1, 2}), "no pixels to sample");
}

// --- boxes
Tensor box(std::vector<float> corners) {
  return f32s({static_cast<int64_t>(corners.size()) / 4, 4}, corners);
}

TEST(RoiAlignOp, MeanAndLargest) {
  const Tensor x = f32s({1, 1, 4, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  const RoiAlign op{.half_pixel = false, .output_height = 1, .output_width = 1, .sampling_ratio = 1};
  // One point, in the middle of the box from (0, 0) to (2, 2): pixel (1, 1).
  expect_values(run_op(op, {x, box({0, 0, 2, 2}), i64s({0})})[0], {5});
  RoiAlign shifted = op;
  shifted.half_pixel = true;  // (0.5, 0.5)
  expect_values(run_op(shifted, {x, box({0, 0, 2, 2}), i64s({0})})[0], {2.5});
  // As many points as the box has pixels: (0.5, 0.5), (0.5, 1.5), (1.5, 0.5), (1.5, 1.5)
  RoiAlign adaptive = op;
  adaptive.sampling_ratio = 0;
  expect_values(run_op(adaptive, {x, box({0, 0, 2, 2}), i64s({0})})[0], {5});
}

TEST(RoiAlignOp, BoxesOutsideHugeAndWithoutAPlace) {
  const Tensor x = f32s({1, 1, 2, 2}, {1, 1, 1, 1});
  const RoiAlign op{.output_height = 1, .output_width = 1};
  expect_values(run_op(op, {x, box({10, 10, 12, 12}), i64s({0})})[0], {0});
  const double huge = run_op(op, {x, box({0, 0, 1e9f, 1e9f}), i64s({0})})[0].to_doubles()[0];
  EXPECT_LT(huge, 1e-6);
  EXPECT_TRUE(std::isnan(run_op(op, {x, box({NAN, 0, 1, 1}), i64s({0})})[0].to_doubles()[0]));
  EXPECT_EQ(run_op(op, {x, f32s({0, 4}, {}), i64s({})})[0].extents(), (Extents{0, 1, 1, 1}));
}

TEST(RoiAlignOp, WrongInputsAreRefused) {
  const Tensor x = f32s({1, 1, 2, 2}, {1, 1, 1, 1});
  const auto error = [&](const RoiAlign& op, const Tensor& image, const Tensor& boxes, const Tensor& images) {
    return input_error([&] { run_op(op, {image, boxes, images}); });
  };
  expect_says(error({}, x, box({0, 0, 1, 1}), i64s({1})), "box 0 is in image 1, there are 1");
  expect_says(error({}, x, box({0, 0, 1, 1}), i64s({-1})), "box 0 is in image -1");
  expect_says(error({}, x, box({0, 0, 1, 1}), i64s({0, 0})),
              "the shape of the batch indices is [2], expected [1]");
  expect_says(error({}, x, f32s({1, 5}, {0, 0, 0, 1, 1}), i64s({0})),
              "the shape of the boxes is [1, 5], expected [1, 4]");
  expect_says(error({}, f32s({1, 1, 0, 2}, {}), box({0, 0, 1, 1}), i64s({0})), "no pixels to sample");
  expect_says(error({.output_height = 0}, x, box({0, 0, 1, 1}), i64s({0})),
              "the result of a box is 0x1, expected at least 1x1");
  expect_says(error({.sampling_ratio = -1}, x, box({0, 0, 1, 1}), i64s({0})), "sampling_ratio is -1");
}

TEST(MaxRoiPoolOp, LargestPixelOfEachBin) {
  const Tensor x = f32s({1, 1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  const MaxRoiPool op{.output_height = 1, .output_width = 2};
  expect_values(run_op(op, {x, f32s({1, 5}, {0, 0, 0, 3, 1})})[0], {5, 7});
  expect_values(run_op(op, {x, f32s({1, 5}, {0, 9, 9, 12, 12})})[0], {0, 0});
  expect_says(input_error([&] {
                run_op(op, {x, f32s({1, 5}, {2, 0, 0, 1, 1})});
              }),
              "box 0 is in image 2, there are 1");
  expect_says(input_error([&] { run_op(op, {x, f32s({1, 5}, {0, NAN, 0, 1, 1})}); }), "not finite");
}

// --- windows
TEST(DeformConvOp, WithoutOffsetsItIsAConvolution) {
  const DeformConv op{.kernel = {2, 2}};
  const Tensor x = f32s({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), w = f32s({1, 1, 2, 2}, {1, 1, 1, 1});
  const Tensor still = Tensor::allocate(DType::Float32, {1, 8, 2, 2});
  expect_values(run_op(op, {x, w, still})[0], {8, 12, 20, 24});
  const Tensor half = Tensor::from<float>({1, 4, 2, 2}, std::vector<float>(16, 0.5f));
  expect_values(run_op(op, {x, w, still, f32s({1}, {100}), half})[0], {104, 106, 110, 112});
}

TEST(DeformConvOp, OffsetsMoveTaps) {
  const DeformConv op{.kernel = {1, 1}};
  const Tensor x = f32s({1, 1, 2, 2}, {0, 1, 2, 3}), w = f32s({1, 1, 1, 1}, {1});
  // down by half a pixel, right by one; what is outside is zero
  const Tensor offset = f32s({1, 2, 2, 2}, {0.5f, 0.5f, 0.5f, 0.5f, 1, 1, 1, 1});
  expect_values(run_op(op, {x, w, offset})[0], {2, 0, 1.5, 0});
  const Tensor lost = f32s({1, 2, 2, 2}, {NAN, 1e30f, -1e30f, INFINITY, 0, 0, 0, 0});
  expect_values(run_op(op, {x, w, lost})[0], {0, 0, 0, 0});
}

TEST(DeformConvOp, WrongShapesAreRefused) {
  const auto error = [](const DeformConv& op, const Extents& x, const Extents& w, const Extents& offset) {
    return input_error([&] {
      run_op(op, {Tensor::allocate(DType::Float32, x), Tensor::allocate(DType::Float32, w),
                  Tensor::allocate(DType::Float32, offset)});
    });
  };
  expect_says(error({.kernel = {1, 1}}, {1, 2, 2, 2}, {1, 1, 1, 1}, {1, 2, 2, 2}),
              "the shape of w is [1, 1, 1, 1], expected [1, 2, 1, 1]");
  expect_says(error({.kernel = {1, 1}}, {1, 1, 2, 2}, {1, 1, 1, 1}, {1, 2, 3, 2}),
              "the shape of the offset is");
  expect_says(error({.kernel = {1, 1}, .offset_groups = 2}, {1, 1, 2, 2}, {1, 1, 1, 1}, {1, 4, 2, 2}),
              "2 groups do not divide the 1 channels");
  expect_says(error({.kernel = {1, 1}, .groups = 0}, {1, 1, 2, 2}, {1, 1, 1, 1}, {1, 2, 2, 2}),
              "0 groups do not divide");
}

TEST(Col2ImOp, OverlapsAreAdded) {
  // Blocks of one row of two over an image of 1 x 3: pixel 1 is in both.
  const auto y = run_op(Col2Im{}, {f32s({1, 2, 2}, {1, 2, 10, 20}), i64s({1, 3}), i64s({1, 2})});
  EXPECT_EQ(y[0].extents(), (Extents{1, 1, 1, 3}));
  expect_values(y[0], {1, 12, 20});
}

TEST(Col2ImOp, ShapesOfRunTimeAndErrors) {
  const std::vector<Value> values = {typed(DType::Float32, {1, 8, 2}), typed(DType::Int64, {2}),
                                     typed(DType::Int64, {2})};
  EXPECT_EQ(infer_values(Col2Im{}, values)[0].shape.size(), 4u);
  const std::vector<Value> floats = {typed(DType::Float32, {1, 2, 2}), typed(DType::Int64, {2}),
                                     typed(DType::Float64, {2})};
  expect_says(input_error([&] { infer_values(Col2Im{}, floats); }), "must be int64, input 2 is float64");
  const auto error = [](const Extents& x, std::vector<int64_t> image, std::vector<int64_t> block) {
    return input_error([&] {
      run_op(Col2Im{}, {Tensor::allocate(DType::Float32, x), i64s(image), i64s(block)});
    });
  };
  expect_says(error({1, 2, 3}, {1, 3}, {1, 2}), "x has 3 columns, the image has 2 blocks");
  expect_says(error({1, 3, 2}, {1, 3}, {1, 2}), "no multiple of a block of 1x2");
  expect_says(error({1, 2, 2}, {1, 3}, {2}), "the shape of the block is [1], expected [2]");
}

}  // namespace
}  // namespace lathe
