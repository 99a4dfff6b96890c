// SPDX-License-Identifier: Apache-2.0
//
// DFT, STFT, MelWeightMatrix.
#include <cmath>
#include <numbers>

#include "ops/op_test.h"

namespace lathe {
namespace {

Tensor scalar(int64_t value) {
  return Tensor::scalar_i64(value);
}

TEST(DftOp, FourPoints) {
  const Tensor x = f32s({4, 1}, {1, 2, 3, 4});
  expect_values(run_op(DFT{}, {x})[0], {10, 0, -2, 2, -2, 0, -2, -2});
  expect_values(run_op(DFT{.onesided = true}, {x})[0], {10, 0, -2, 2, -2, 0});
  // cut to two points, and filled up to five
  expect_values(run_op(DFT{}, {x, scalar(2)})[0], {3, 0, -1, 0});
  EXPECT_EQ(run_op(DFT{}, {x, scalar(5)})[0].extents(), (Extents{5, 2}));
}

// Lengths with large prime factors, repeated ones, and one.
TEST(DftOp, EqualsTheSumForAllLengths) {
  for (int64_t n = 1; n <= 40; ++n) {
    std::vector<float> values;
    for (int64_t i = 0; i < 2 * n; ++i) values.push_back(static_cast<float>((i * 37) % 11) - 5);
    const std::vector<double> y = run_op(DFT{}, {f32s({n, 2}, values)})[0].to_doubles();
    for (int64_t k = 0; k < n; ++k) {
      double real = 0, imaginary = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double angle = -2 * std::numbers::pi * static_cast<double>(i * k % n) / static_cast<double>(n);
        const double a = values[static_cast<size_t>(2 * i)], b = values[static_cast<size_t>(2 * i + 1)];
        real += a * std::cos(angle) - b * std::sin(angle);
        imaginary += a * std::sin(angle) + b * std::cos(angle);
      }
      EXPECT_NEAR(y[static_cast<size_t>(2 * k)], real, 1e-4) << n;
      EXPECT_NEAR(y[static_cast<size_t>(2 * k + 1)], imaginary, 1e-4) << n;
    }
  }
}

TEST(DftOp, InverseGivesBack) {
  const Tensor x = f32s({2, 6, 1}, {1, 2, 3, 4, 5, 6, 6, 5, 4, 0, 2, 1});
  const Tensor whole = run_op(DFT{}, {x})[0];
  const std::vector<double> back = run_op(DFT{.inverse = true}, {whole})[0].to_doubles();
  const std::vector<double> half =
      run_op(DFT{.inverse = true, .onesided = true}, {run_op(DFT{.onesided = true}, {x})[0]})[0].to_doubles();
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(back[2 * i], x.to_doubles()[i], 1e-5);
    EXPECT_NEAR(back[2 * i + 1], 0, 1e-5);
    EXPECT_NEAR(half[i], x.to_doubles()[i], 1e-5);
  }
}

TEST(DftOp, AnyAxisButTheLast) {
  const Tensor x = f32s({2, 2, 1}, {1, 2, 3, 4});
  expect_values(run_op(DFT{}, {x, Tensor(), scalar(0)})[0], {4, 0, 6, 0, -2, 0, -2, 0});
  expect_says(input_error([&] { run_op(DFT{}, {x, Tensor(), scalar(2)}); }), "the last dim, which holds");
  expect_says(input_error([&] { run_op(DFT{}, {x, Tensor(), scalar(-4)}); }), "the axis of DFT");
}

TEST(DftOp, ShapesAndErrors) {
  const Dim n = Dim::symbol("n");
  EXPECT_EQ(infer_values(DFT{.onesided = true}, {typed(DType::Float32, {3, n, 1})})[0].shape,
            (Shape{3, floor_div(n, Dim(2)) + 1, 2}));
  EXPECT_EQ(
      infer_values(DFT{}, {typed(DType::Float32, {3, n, 1}), Value{}, typed(DType::Int64, {})})[0].shape,
      (Shape{3, n, 2}));
  expect_says(input_error([] { run_op(DFT{}, {f32s({4}, {1, 2, 3, 4})}); }), "at least two dims");
  expect_says(input_error([] {
                run_op(DFT{}, {f32s({1, 3}, {1, 2, 3})});
              }),
              "expected 1 (real) or 2 (complex)");
  expect_says(input_error([] {
                run_op(DFT{}, {f32s({2, 1}, {1, 2}), scalar(0)});
              }),
              "the length is 0, expected at least 1");
  expect_says(input_error([] {
                run_op(DFT{}, {f32s({2, 1}, {1, 2}), i64s({1, 2})});
              }),
              "the length must have one element");
}

TEST(DftOp, LengthsThatNobodyWaitsFor) {
  expect_says(input_error([] {
                run_op(DFT{}, {f32s({2, 1}, {1, 2}), scalar(int64_t{1} << 40)});
              }),
              "the length is 1099511627776, at most 67108864");
}

TEST(StftOp, FramesTimesTheWindow) {
  const Tensor x = f32s({1, 5, 1}, {1, 2, 3, 4, 5});
  const auto y = run_op(STFT{}, {x, scalar(2), Tensor(), scalar(3)});
  EXPECT_EQ(y[0].extents(), (Extents{1, 2, 2, 2}));
  EXPECT_NEAR(y[0].to_doubles()[0], 6, 1e-5);
  EXPECT_NEAR(y[0].to_doubles()[4], 12, 1e-5);
  const auto windowed = run_op(STFT{.onesided = false}, {x, scalar(1), f32s({2}, {1, 10})});
  EXPECT_EQ(windowed[0].extents(), (Extents{1, 4, 2, 2}));
  expect_values(windowed[0], {21, 0, -19, 0, 32, 0, -28, 0, 43, 0, -37, 0, 54, 0, -46, 0});
}

TEST(StftOp, Errors) {
  const Tensor x = f32s({1, 5, 1}, {1, 2, 3, 4, 5});
  const auto error = [&](std::vector<Tensor> inputs) { return input_error([&] { run_op(STFT{}, inputs); }); };
  expect_says(error({x, f32s({}, {2}), Tensor(), scalar(3)}), "the step must be integers");
  expect_says(error({x, scalar(0)}), "the step is 0, expected at least 1");
  expect_says(error({x, scalar(1), Tensor(), scalar(6)}), "a frame of 6 is longer than the signal of 5");
  expect_says(error({x, scalar(1), f32s({2}, {1, 1}), scalar(3)}),
              "the window has 2 elements, a frame has 3");
  expect_says(error({f32s({5}, {1, 2, 3, 4, 5}), scalar(1)}), "the signal must have 3 dims");
}

TEST(MelWeightMatrixOp, TrianglesThatSumToOneInTheMiddle) {
  const std::vector<Tensor> inputs = {scalar(8), scalar(16), scalar(8192), Tensor::scalar_f32(0),
                                      Tensor::scalar_f32(4096)};
  const auto y = run_op(MelWeightMatrix{}, inputs);
  EXPECT_EQ(y[0].extents(), (Extents{9, 8}));
  for (const double value : y[0].to_doubles()) EXPECT_TRUE(value >= 0 && value <= 1);
  std::vector<Tensor> wrong = inputs;
  wrong[4] = Tensor::scalar_f32(5000);
  expect_says(input_error([&] { run_op(MelWeightMatrix{}, wrong); }),
              "not in order between 0 and half of the sample rate");
  wrong = inputs;
  wrong[0] = scalar(0);
  expect_says(input_error([&] { run_op(MelWeightMatrix{}, wrong); }), "the number of mel bins is 0");
}

}  // namespace
}  // namespace lathe
