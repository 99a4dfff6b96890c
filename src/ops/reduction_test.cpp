// SPDX-License-Identifier: Apache-2.0
//
// Pool, Reduce, Softmax and the norms.

#include <cmath>
#include <limits>

#include "ops/evaluate_op.h"

namespace lathe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// --- Pool

Pool pool2(PoolKind kind, int64_t kernel, int64_t stride, int64_t pad) {
  return {kind, Ints(2, kernel), Ints(2, stride), {}, Ints(2, pad), Ints(2, pad)};
}

TEST(Pool, MaximumAndItsIndices) {
  const Tensor x = ramp({1, 2, 3, 3});
  Pool pool = pool2(PoolKind::Max, 2, 1, 0);
  const auto y = evaluate_op(pool, {x}, 2);
  expect_near(y[0], {4, 5, 7, 8, 13, 14, 16, 17});
  EXPECT_EQ(y[1].to_int64s(), (std::vector<int64_t>{4, 5, 7, 8, 13, 14, 16, 17}));
  pool.column_major = true;
  EXPECT_EQ(evaluate_op(pool, {x}, 2)[1].to_int64s(), (std::vector<int64_t>{4, 7, 5, 8, 13, 16, 14, 17}));
}

TEST(Pool, FirstOfEqualMaximaWins) {
  const Tensor x = Tensor::from<float>({1, 1, 3}, {5, 5, 1});
  EXPECT_EQ(evaluate_op(Pool{PoolKind::Max, {3}}, {x}, 2)[1].to_int64s(), (std::vector<int64_t>{0}));
}

TEST(Pool, PaddingNeverWinsAndNeverCountsUnlessAsked) {
  const Tensor x = Tensor::from<float>({1, 1, 2, 2}, {-1, -2, -3, -4});
  expect_near(evaluate_op(pool2(PoolKind::Max, 2, 2, 1), {x})[0], {-1, -2, -3, -4});
  Pool average = pool2(PoolKind::Average, 2, 2, 1);
  expect_near(evaluate_op(average, {x})[0], {-1, -2, -3, -4});
  average.count_include_pad = true;
  expect_near(evaluate_op(average, {x})[0], {-0.25, -0.5, -0.75, -1});
}

TEST(Pool, CeilModeStopsAtTheDeclaredPadding) {
  // Length 4, kernel 3, stride 2, pad 1 each side: the third window covers position 3, one pad, and one
  // beyond it.
  Pool average{PoolKind::Average, {3}, {2}, {}, {1}, {1}};
  average.ceil_mode = average.count_include_pad = true;
  expect_near(evaluate_op(average, {ramp({1, 1, 4})})[0], {1.0 / 3, 2, 1.5});
}

TEST(Pool, DilationAndLp) {
  Pool max{PoolKind::Max, {2}, {1}, {2}};
  expect_near(evaluate_op(max, {ramp({1, 1, 5})})[0], {2, 3, 4});
  Pool lp{PoolKind::Lp, {2}, {2}};
  expect_near(evaluate_op(lp, {Tensor::from<float>({1, 1, 4}, {3, -4, 5, 12})})[0], {5, 13});
}

TEST(Pool, AbsurdKernelsCostNothing) {
  // A billion taps, of which three meet data.
  const int64_t pad = int64_t{1} << 29, kernel = 2 * pad + 3;
  Pool pool{PoolKind::Max, {kernel}, {1}, {}, {pad}, {pad}};
  expect_near(evaluate_op(pool, {ramp({1, 1, 3})})[0], {2});
}

TEST(Pool, ErrorsNameTheKernel) {
  expect_input_error(
      [] {
        evaluate_op(Pool{PoolKind::Max, {2}}, {ramp({1, 1, 4, 4})});
      },
      "Pool has a kernel of 1 dims for 2");
  expect_input_error(
      [] {
        evaluate_op(Pool{PoolKind::Max, {9}}, {ramp({1, 1, 4})});
      },
      "a window of 9 does not fit");
  expect_input_error(
      [] {
        evaluate_op(Pool{PoolKind::Max, {}}, {ramp({4})});
      },
      "needs data (N, C, spatial...)");
}

// --- Reduce

Tensor reduce(ReduceKind kind, const Tensor& x, std::optional<Ints> axes, bool keepdims = false) {
  return evaluate_op(Reduce{kind, std::move(axes), keepdims}, {x})[0];
}

TEST(Reduce, EveryKind) {
  const Tensor x = Tensor::from<float>({2, 3}, {1, -2, 3, 4, 5, -6});
  const Ints last = {-1};
  expect_near(reduce(ReduceKind::Sum, x, last), {2, 3});
  expect_near(reduce(ReduceKind::Mean, x, last), {2.0 / 3, 1});
  expect_near(reduce(ReduceKind::Max, x, last), {3, 5});
  expect_near(reduce(ReduceKind::Min, x, last), {-2, -6});
  expect_near(reduce(ReduceKind::Prod, x, last), {-6, -120});
  expect_near(reduce(ReduceKind::L1, x, last), {6, 15});
  expect_near(reduce(ReduceKind::L2, x, last), {std::sqrt(14.0), std::sqrt(77.0)});
  expect_near(reduce(ReduceKind::SumSquare, x, last), {14, 77});
  expect_near(reduce(ReduceKind::LogSum, x, last), {std::log(2.0), std::log(3.0)});
  expect_near(reduce(ReduceKind::LogSumExp, x, last), {3.132845, 5.313281}, 1e-5);
}

TEST(Reduce, AxesMayBeAnywhere) {
  const Tensor x = ramp({2, 3, 4});
  EXPECT_EQ(reduce(ReduceKind::Sum, x, Ints{0, 2}, true).extents(), (Extents{1, 3, 1}));
  expect_near(reduce(ReduceKind::Sum, x, Ints{0, 2}), {60, 92, 124});
  expect_near(reduce(ReduceKind::Sum, x, std::nullopt), {276});
  expect_near(reduce(ReduceKind::Sum, x, Ints{}), x.to_doubles());  // no axis: as it was
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  expect_near(reduce(ReduceKind::LogSumExp, Tensor::from<float>({2}, {1000, 1000}), Ints{0}), {1000.693147},
              1e-3);
}

TEST(Reduce, EmptySetsGiveTheNeutralElement) {
  const Tensor x = Tensor::allocate(DType::Float32, {2, 0});
  expect_near(reduce(ReduceKind::Sum, x, Ints{1}), {0, 0});
  expect_near(reduce(ReduceKind::Prod, x, Ints{1}), {1, 1});
  EXPECT_EQ(reduce(ReduceKind::Max, x, Ints{1}).to_doubles()[0], -kInfinity);
  EXPECT_EQ(reduce(ReduceKind::LogSumExp, x, Ints{1}).to_doubles()[0], -kInfinity);
  const Tensor i = Tensor::allocate(DType::Int8, {1, 0});
  EXPECT_EQ(reduce(ReduceKind::Max, i, Ints{1}).to_int64s()[0], -128);
}

TEST(Reduce, AbsurdExtentsBesideNoneCostNothing) {
  const Tensor x = Tensor::allocate(DType::Float32, {0, int64_t{1} << 40});
  EXPECT_EQ(reduce(ReduceKind::Sum, x, Ints{1}).size(), 0);
}

TEST(Reduce, BigIntegersStayExact) {
  const int64_t big = (int64_t{1} << 60) + 1;
  EXPECT_EQ(reduce(ReduceKind::Sum, Tensor::from<int64_t>({2}, {big, 1}), Ints{0}).to_int64s()[0], big + 1);
}

TEST(Reduce, AxesFromATensor) {
  const Tensor x = ramp({2, 3}), axes = Tensor::from<int64_t>({1}, {0});
  Reduce op{ReduceKind::Sum, std::nullopt, false};
  expect_near(evaluate_op(op, {x, axes})[0], {3, 5, 7});
  // Known only at run time: the rank is known, extents are bounded.
  std::vector<Value> values = values_of({x, axes}, false);
  const Shape shape = infer_op(op, values)[0].shape;
  ASSERT_EQ(shape.size(), 1u);
  EXPECT_EQ(shape[0].bounds({}).high, 3);
  const Tensor none = Tensor::allocate(DType::Int64, {0});
  expect_near(evaluate_op(op, {x, none})[0], {15});
  op.noop_with_empty_axes = true;
  expect_near(evaluate_op(op, {x, none})[0], x.to_doubles());
}

TEST(Reduce, ErrorsNameTheAxis) {
  expect_input_error([] { reduce(ReduceKind::Sum, ramp({2, 3}), Ints{2}); }, "axis");
  expect_input_error([] { reduce(ReduceKind::Sum, ramp({2, 3}), Ints{1, -1}); }, "axis -1 is reduced twice");
  expect_input_error(
      [] {
        infer_op(Reduce{.kind = ReduceKind::Sum},
                 {{.dtype = DType::Float32, .shape = {2, 3}}, {.dtype = DType::Float64, .shape = {1}}});
      },
      "the axes must be int64, they are float64");
}

// --- Softmax

TEST(Softmax, AnyAxisAndLogarithm) {
  const Tensor x = Tensor::from<float>({2, 2}, {0, 1000, 0, 1000});
  expect_near(evaluate_op(Softmax{1}, {x})[0], {0, 1, 0, 1});
  expect_near(evaluate_op(Softmax{0}, {x})[0], {0.5, 0.5, 0.5, 0.5});
  expect_near(evaluate_op(Softmax{1, true}, {x})[0], {-1000, 0, -1000, 0});
  expect_input_error([] { evaluate_op(Softmax{2}, {ramp({2, 2})}); }, "the axis of Softmax");
  expect_input_error([] { evaluate_op(Softmax{0}, {Tensor::from<int32_t>({1}, {1})}); },
                     "floating point, not int32");
}

// --- norms

TEST(LayerNorm, NormalizesScalesAndReportsStatistics) {
  const Tensor x = Tensor::from<float>({1, 4}, {1, 2, 3, 4});
  const auto y =
      evaluate_op(LayerNorm{-1, 0},
                  {x, Tensor::from<float>({4}, {1, 1, 1, 2}), Tensor::from<float>({4}, {0, 0, 5, 0})}, 3);
  const double s = 1 / std::sqrt(1.25);
  expect_near(y[0], {-1.5 * s, -0.5 * s, 0.5 * s + 5, 3 * s});
  expect_near(y[1], {2.5});
  expect_near(y[2], {s});
  EXPECT_EQ(y[1].extents(), (Extents{1, 1}));
}

TEST(LayerNorm, RootMeanSquareKeepsTheMean) {
  LayerNorm rms{-1, 0};
  rms.rms = true;
  expect_near(evaluate_op(rms, {Tensor::from<float>({2}, {3, 4})})[0],
              {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)});
}

TEST(BatchNorm, IsAffinePerChannel) {
  const Tensor one = ramp({2}), var = Tensor::from<float>({2}, {1, 4});
  const Tensor y =
      evaluate_op(BatchNorm{0}, {ramp({1, 2, 2}), Tensor::from<float>({2}, {2, 3}), one, one, var})[0];
  expect_near(y, {0, 2, 2.5, 4});
  expect_input_error(
      [&] {
        evaluate_op(BatchNorm{0}, {ramp({1, 3, 2}), one, one, one, one});
      },
      "one element for each of the 3 channels");
}

TEST(GroupNorm, GroupsShareTheirMoments) {
  const Tensor x = Tensor::from<float>({1, 4, 1}, {1, 3, 10, 30}),
               scale = Tensor::from<float>({4}, {1, 1, 1, 2});
  const Tensor bias = ramp({4}, 0);
  expect_near(evaluate_op(GroupNorm{2, 0}, {x, scale, bias})[0], {-1, 1, -1, 2});
  const Tensor planes = Tensor::from<float>({1, 1, 2}, {5, 7});
  expect_near(evaluate_op(GroupNorm{0, 0}, {planes, ramp({1}), Tensor::from<float>({1}, {3})})[0], {3, 3});
  expect_input_error(
      [&] {
        evaluate_op(GroupNorm{3}, {x, scale, bias});
      },
      "4 channels do not divide into 3 groups");
}

TEST(Lrn, NeighboursAreCentredLowFirst) {
  // size 2: one neighbour after, none before.
  const Tensor y = evaluate_op(Lrn{2, 2, 1, 1}, {Tensor::from<float>({1, 3, 1}, {1, 2, 3})})[0];
  expect_near(y, {1.0 / 6, 2.0 / 14, 3.0 / 10});
  expect_input_error([] { evaluate_op(Lrn{0}, {ramp({1, 3, 1})}); }, "size is 0");
}

}  // namespace
}  // namespace lathe
