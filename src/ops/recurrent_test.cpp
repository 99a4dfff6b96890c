// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/op_test.h"

namespace lathe {
namespace {

// One input, one hidden value: gates are w * x + r * h.
std::vector<Tensor> one_by_one(const std::vector<float>& x, const std::vector<float>& w,
                               const std::vector<float>& r) {
  const auto gates = static_cast<int64_t>(w.size());
  return {f32s({static_cast<int64_t>(x.size()), 1, 1}, x), f32s({gates, 1}, w), f32s({gates, 1}, r)};
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

TEST(RnnOp, EachStepReadsTheOneBefore) {
  const auto y =
      run_op(RNN{.f = Activation::Affine, .alpha = {2}, .beta = {1}}, one_by_one({1, 2, 3}, {1}, {0.5f}), 2);
  // h = 2 * (x + h / 2) + 1: 3, 8, 15
  expect_values(y[0], {3, 8, 15});
  expect_values(y[1], {15});
}

TEST(RnnOp, ReverseBeginsAtTheLastStep) {
  const RNN op{.f = Activation::Affine, .alpha = {1}, .reverse = true};
  const auto y = run_op(op, one_by_one({1, 2, 3}, {1}, {2}), 2);
  expect_values(y[0], {17, 8, 3});  // 3; 2 + 6; 1 + 16
  expect_values(y[1], {17});
}

TEST(RnnOp, LengthsEndSequences) {
  // two sequences side by side, of 1 and 2 steps of three
  const std::vector<Tensor> inputs = {f32s({3, 2, 1}, {1, 10, 2, 20, 3, 30}), f32s({1, 1}, {1}),
                                      f32s({1, 1}, {1}), Tensor(), Tensor::from<int32_t>({2}, {1, 2})};
  RNN op{.f = Activation::Relu};
  auto y = run_op(op, inputs, 2);
  expect_values(y[0], {1, 10, 0, 30, 0, 0});
  expect_values(y[1], {1, 30});
  op.reverse = true;
  y = run_op(op, inputs, 2);
  expect_values(y[0], {1, 30, 0, 20, 0, 0});
  expect_values(y[1], {1, 30});
}

TEST(RnnOp, BiasInitialStateAndClip) {
  std::vector<Tensor> inputs = one_by_one({1}, {1}, {1});
  inputs.push_back(f32s({2}, {10, 20}));
  inputs.emplace_back();
  inputs.push_back(f32s({1, 1}, {5}));
  expect_values(run_op(RNN{.f = Activation::Relu}, inputs, 2)[1], {36});
  expect_values(run_op(RNN{.f = Activation::Relu, .clip = 7}, inputs, 2)[1], {7});
}

TEST(RnnOp, Activations) {
  const auto apply = [](Activation f, float x, std::vector<float> alpha = {}, std::vector<float> beta = {}) {
    return run_op(RNN{.f = f, .alpha = std::move(alpha), .beta = std::move(beta)}, one_by_one({x}, {1}, {0}),
                  2)[1]
        .to_doubles()[0];
  };
  EXPECT_NEAR(apply(Activation::Tanh, 1), std::tanh(1.0), 1e-6);
  EXPECT_NEAR(apply(Activation::Sigmoid, 1), sigmoid(1), 1e-6);
  EXPECT_NEAR(apply(Activation::LeakyRelu, -2, {0.5f}), -1, 1e-6);
  EXPECT_NEAR(apply(Activation::ThresholdedRelu, 2, {2}), 2, 1e-6);
  EXPECT_NEAR(apply(Activation::ThresholdedRelu, 1, {2}), 0, 1e-6);
  EXPECT_NEAR(apply(Activation::ScaledTanh, 1, {3}, {2}), 3 * std::tanh(2.0), 1e-6);
  EXPECT_NEAR(apply(Activation::HardSigmoid, 1, {0.2f}, {0.5f}), 0.7, 1e-6);
  EXPECT_NEAR(apply(Activation::Elu, -1, {2}), 2 * std::expm1(-1.0), 1e-6);
  EXPECT_NEAR(apply(Activation::Softsign, -3), -0.75, 1e-6);
  EXPECT_NEAR(apply(Activation::Softplus, 1), std::log1p(std::exp(1.0)), 1e-6);
  EXPECT_NEAR(apply(Activation::Softplus, 200), 200, 1e-6);
}

TEST(GruOp, GatesByHand) {
  // update, reset, hidden
  std::vector<Tensor> inputs = one_by_one({1}, {0.5f, -1, 2}, {0.25f, 1, 3});
  inputs.push_back(f32s({6}, {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}));
  inputs.emplace_back();
  inputs.push_back(f32s({1, 1}, {2}));
  const double z = sigmoid(0.5 + 0.25 * 2 + 0.1 + 0.4), r = sigmoid(-1 + 2 + 0.2 + 0.5);
  const double before = std::tanh(2 + 0.3 + r * (3 * 2 + 0.6)),
               after = std::tanh(2 + 0.3 + 3 * (r * 2) + 0.6);
  expect_values(run_op(GRU{.linear_before_reset = true}, inputs, 2)[1], {(1 - z) * before + z * 2});
  expect_values(run_op(GRU{}, inputs, 2)[1], {(1 - z) * after + z * 2});
}

TEST(LstmOp, GatesByHand) {
  // input, output, forget, cell
  std::vector<Tensor> inputs = one_by_one({1}, {0.5f, 1, -0.5f, 2}, {1, 0, 1, -1});
  inputs.push_back(f32s({8}, {0.1f, 0.2f, 0.3f, 0.4f, 0, 0, 0, 0}));
  inputs.emplace_back();
  inputs.push_back(f32s({1, 1}, {0.5f}));
  inputs.push_back(f32s({1, 1}, {3}));
  inputs.push_back(f32s({3}, {0.1f, 0.2f, 0.3f}));
  const double i = sigmoid(0.5 + 0.5 + 0.1 + 0.1 * 3), f = sigmoid(-0.5 + 0.5 + 0.3 + 0.3 * 3);
  const double cell = std::tanh(2 - 0.5 + 0.4), c = f * 3 + i * cell, o = sigmoid(1 + 0.2 + 0.2 * c);
  const auto y = run_op(LSTM{}, inputs, 3);
  expect_values(y[2], {c});
  expect_values(y[1], {o * std::tanh(c)});
  expect_values(y[0], {o * std::tanh(c)});
  expect_values(run_op(LSTM{.input_forget = true}, inputs, 3)[2], {(1 - i) * 3 + i * cell});
}

TEST(LstmOp, NoStepsAndNoSequences) {
  const auto w = f32s({4, 1}, {1, 1, 1, 1});
  const auto y = run_op(LSTM{}, {f32s({0, 1, 1}, {}), w, w, Tensor(), Tensor(), f32s({1, 1}, {7})}, 3);
  EXPECT_EQ(y[0].extents(), (Extents{0, 1, 1}));
  expect_values(y[1], {7});
  EXPECT_EQ(run_op(LSTM{}, {f32s({2, 0, 1}, {}), w, w}, 3)[1].extents(), (Extents{0, 1}));
}

TEST(RecurrentOps, SymbolicShapes) {
  const Dim t = Dim::symbol("t"), b = Dim::symbol("b");
  const auto results = infer_values(
      LSTM{},
      {typed(DType::Float32, {t, b, 5}), typed(DType::Float32, {12, 5}), typed(DType::Float32, {12, 3})}, 3);
  EXPECT_EQ(results[0].shape, (Shape{t, b, 3}));
  EXPECT_EQ(results[2].shape, (Shape{b, 3}));
}

TEST(RecurrentOps, WrongInputsAreRefused) {
  const auto error = [](const Op& op, std::vector<Tensor> inputs) {
    return input_error([&] { run_op(op, inputs, 2); });
  };
  const std::vector<Tensor> good = one_by_one({1, 2}, {1}, {1});
  const auto with = [&](size_t at, const Tensor& tensor) {
    std::vector<Tensor> inputs = good;
    inputs.resize(std::max(inputs.size(), at + 1));
    inputs[at] = tensor;
    return inputs;
  };
  expect_says(error(RNN{}, with(0, f32s({2, 1}, {1, 2}))), "x must have 3 dims; the shape is [2, 1]");
  expect_says(error(RNN{}, with(0, Tensor::from<int32_t>({1, 1, 1}, {1}))),
              "the type of x is int32, expected float16");
  expect_says(error(RNN{}, with(1, f32s({2, 1}, {1, 2}))), "the shape of w is [2, 1], expected [1, 1]");
  expect_says(error(RNN{}, with(2, f32s({2, 1}, {1, 2}))), "the shape of r is [2, 1], expected [1, 1]");
  expect_says(error(RNN{}, with(3, f32s({1}, {1}))), "the shape of the bias is [1], expected [2]");
  expect_says(error(RNN{}, with(4, f32s({1}, {1}))), "the type of the lengths is float32, expected int32");
  expect_says(error(RNN{}, with(4, Tensor::from<int32_t>({2}, {1, 1}))),
              "the shape of the lengths is [2], expected [1]");
  expect_says(error(RNN{}, with(4, Tensor::from<int32_t>({1}, {3}))),
              "a length of 3 is not between 0 and the 2 steps");
  expect_says(error(RNN{}, with(4, Tensor::from<int32_t>({1}, {-1}))), "a length of -1 is not between");
  expect_says(error(RNN{}, with(5, f32s({2, 1}, {1, 2}))),
              "the shape of initial h is [2, 1], expected [1, 1]");
  expect_says(error(LSTM{}, {f32s({1, 1, 1}, {1}), f32s({4, 1}, {1, 1, 1, 1}), f32s({4, 1}, {1, 1, 1, 1}),
                             Tensor(), Tensor(), Tensor(), Tensor(), f32s({2}, {1, 1})}),
              "the shape of the peepholes is [2], expected [3]");
  expect_says(error(RNN{.alpha = {1, 2}}, good),
              "alpha has 2 entries, expected none or one for each of the 1");
  expect_says(error(RNN{.clip = -1}, good), "clip is -1");
  expect_says(error(RNN{}, with(2, Tensor::from<int32_t>({1, 1}, {1}))),
              "the type of input 2 is int32, expected float16");
}

}  // namespace
}  // namespace lathe
