// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "ops/op_test.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

const Dim kHeight = Dim::symbol("h");

Numbers resized(Resize op, const Tensor& x, const std::vector<float>& scales) {
  op.scales = scales;
  return run_op(op, {x})[0].to_doubles();
}

void expect_near(const Numbers& actual, const Numbers& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << "element " << i;
}

TEST(ResizeOp, LinearCoordinates) {
  const Tensor x = f32s({4}, {1, 2, 3, 4});
  Resize op{.mode = ResizeMode::Linear};
  expect_near(resized(op, x, {2}), {1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4});
  op.coordinates = CoordinateMode::Asymmetric;
  expect_near(resized(op, x, {2}), {1, 1.5, 2, 2.5, 3, 3.5, 4, 4});
  op.coordinates = CoordinateMode::AlignCorners;
  expect_near(resized(op, x, {1.75f}), {1, 1.5, 2, 2.5, 3, 3.5, 4});
}

TEST(ResizeOp, PytorchHalfPixelOfOneElementTakesTheFirst) {
  Resize op{.mode = ResizeMode::Linear, .coordinates = CoordinateMode::PytorchHalfPixel};
  expect_near(resized(op, f32s({4}, {1, 2, 3, 4}), {0.25f}), {1});
  op.coordinates = CoordinateMode::HalfPixel;
  expect_near(resized(op, f32s({4}, {1, 2, 3, 4}), {0.25f}), {2.5});
}

TEST(ResizeOp, NearestRoundings) {
  const Tensor x = f32s({4}, {1, 2, 3, 4});
  Resize op{.coordinates = CoordinateMode::Asymmetric};  // source positions 0, 0.5, 1, 1.5, ...
  const auto with = [&](NearestMode mode) {
    op.nearest = mode;
    return resized(op, x, {2});
  };
  EXPECT_EQ(with(NearestMode::Floor), (Numbers{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(with(NearestMode::Ceil), (Numbers{1, 2, 2, 3, 3, 4, 4, 4}));
  EXPECT_EQ(with(NearestMode::RoundPreferFloor), (Numbers{1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(with(NearestMode::RoundPreferCeil), (Numbers{1, 2, 2, 3, 3, 4, 4, 4}));
}

TEST(ResizeOp, NearestKeepsEveryBit) {
  const int64_t big = (int64_t{1} << 60) + 1;  // no double holds it
  Resize op{.scales = {2}};
  EXPECT_EQ(run_op(op, {i64s({big, 3})})[0].to_int64s(), (std::vector<int64_t>{big, big, 3, 3}));
}

// Whatever the mode: weights sum to 1, so a constant image stays constant, also at the edges.
TEST(ResizeOp, AConstantStaysConstant) {
  const Tensor x = f32s({3, 5}, std::vector<float>(15, 7));
  for (const ResizeMode mode : {ResizeMode::Nearest, ResizeMode::Linear, ResizeMode::Cubic}) {
    for (int coordinates = 0; coordinates < 5; ++coordinates) {
      for (int flags = 0; flags < 4; ++flags) {
        Resize op{.mode = mode, .coordinates = static_cast<CoordinateMode>(coordinates)};
        op.antialias = (flags & 1) != 0 && mode != ResizeMode::Nearest;
        op.exclude_outside = (flags & 2) != 0;
        for (const double value : resized(op, x, {0.7f, 2.3f})) ASSERT_NEAR(value, 7, 1e-5);
      }
    }
  }
}

// A cubic kernel reproduces a straight line away from the edges.
TEST(ResizeOp, CubicReproducesALine) {
  Resize op{.mode = ResizeMode::Cubic};
  op.cubic_coeff_a = -0.5f;
  const Numbers y = resized(op, f32s({8}, {0, 1, 2, 3, 4, 5, 6, 7}), {2});
  for (size_t i = 4; i < 12; ++i) EXPECT_NEAR(y[i], (static_cast<double>(i) + 0.5) / 2 - 0.5, 1e-6);
}

TEST(ResizeOp, AntialiasAverages) {
  Resize op{.mode = ResizeMode::Linear};
  op.antialias = true;
  // Halving with a triangle of radius 2: weights 1/8, 3/8, 3/8, 1/8 (the inside of the image).
  expect_near({resized(op, f32s({6}, {0, 0, 8, 0, 0, 0}), {0.5f})[1]}, {3});
}

TEST(ResizeOp, CropAndExtrapolation) {
  Resize op{.mode = ResizeMode::Linear, .coordinates = CoordinateMode::TfCropAndResize};
  op.extrapolation_value = 10;
  op.sizes = Shape{3};
  expect_near(run_op(op, {f32s({3}, {1, 2, 3}), f32s({2}, {0, 1})})[0].to_doubles(), {1, 2, 3});
  expect_near(run_op(op, {f32s({3}, {1, 2, 3}), f32s({2}, {0.5f, 1.5f})})[0].to_doubles(), {2, 3, 10});
  expect_says(input_error([&] { run_op(op, {f32s({3}, {1, 2, 3})}); }), "needs a roi of 2 numbers");
}

TEST(ResizeOp, AspectPolicies) {
  Resize op;
  op.sizes = Shape{7, 8};
  op.aspect = AspectPolicy::NotLarger;
  EXPECT_EQ(run_op(op, {counting({2, 4})})[0].extents(), (Extents{4, 8}));
  op.aspect = AspectPolicy::NotSmaller;
  EXPECT_EQ(run_op(op, {counting({2, 4})})[0].extents(), (Extents{7, 14}));
}

TEST(ResizeOp, SymbolicDims) {
  Resize op{.scales = {1, 2}};
  const Value x = typed(DType::Float32, {Dim::symbol("n"), kHeight});
  EXPECT_EQ(infer_values(op, {x})[0].shape, (Shape{Dim::symbol("n"), kHeight * Dim(2)}));
  op.scales = {1, 0.5f};
  EXPECT_EQ(infer_values(op, {x})[0].shape[1], floor_div(kHeight, Dim(2)));
  op.scales = {1, 0.6f};  // floor(5 * 0.6f) = 3, by the float's exact value
  EXPECT_EQ(infer_values(op, {x})[0].shape[1].evaluate({{"n", 1}, {"h", 5}}), 3);
  Resize by_size{.sizes = Shape{Dim::symbol("n"), kHeight * Dim(2)}};
  EXPECT_EQ(infer_values(by_size, {x})[0].shape[1], kHeight * Dim(2));
}

TEST(ResizeOp, Errors) {
  const Tensor x = f32s({2, 2}, {1, 2, 3, 4});
  const auto error = [&](const Resize& op) { return input_error([&] { infer_values(op, {known(x)}); }); };
  expect_says(error(Resize{}), "needs scales or sizes");
  expect_says(error(Resize{.scales = {2}}), "2 expected, 1 given");
  expect_says(error(Resize{.scales = {1, 0}}), "not a positive number");
  expect_says(error(Resize{.scales = {1, 1e30f}}), "too large");
  expect_says(error(Resize{.sizes = Shape{1, -1}}), "is negative");
  const int64_t most = std::numeric_limits<int64_t>::max();
  expect_says(error(Resize{.aspect = AspectPolicy::NotSmaller, .sizes = Shape{most, most}}), "too large");
  expect_says(error(Resize{.scales = {1, 1}, .axes = {0, 0}}), "name a dim twice");
  expect_says(error(Resize{.antialias = true, .scales = {1, 1}}), "antialias needs");
  expect_says(input_error([&] { run_op(Resize{.sizes = Shape{2}}, {f32s({0}, {})}); }),
              "cannot resize a dim of 0");
  expect_says(input_error([&] { run_op(Resize{.scales = {1e12f, 1}}, {x}); }), "does not fit");
  EXPECT_EQ(run_op(Resize{.scales = {1e12f, 0.25f}}, {x})[0].size(),
            0);  // and without walking 2e12 positions
  Resize aspect{.aspect = AspectPolicy::NotLarger, .sizes = Shape{2}};
  expect_says(input_error([&] { run_op(aspect, {f32s({0}, {})}); }), "no aspect ratio");
}

}  // namespace
}  // namespace lathe
