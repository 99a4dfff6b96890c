// SPDX-License-Identifier: Apache-2.0
#include "ops/evaluate_op.h"
#include "ops/op_test.h"

namespace lathe {
namespace {

// Two channels of two positions: means 2 and 4, the middle layer is relu(2 + 4/2 + 1) = 5, the gates 0.5 and
// 0.
const std::vector<Tensor> kInputs = {f32s({1, 2, 2}, {1, 3, 2, 6}), f32s({1, 2, 1}, {1, 0.5f}),
                                     f32s({1}, {1}), f32s({2, 1, 1}, {0.1f, -0.2f}), f32s({2}, {0, 1})};
const SqueezeExcite kOp{.squeeze = PointwiseProgram::parse("Relu(0)", 1),
                        .excite = PointwiseProgram::parse("HardSigmoid[1,0](0)", 1)};

TEST(SqueezeExcite, MultipliesChannelsByTheirGates) {
  expect_near(evaluate_op(kOp, kInputs)[0], {0.5, 1.5, 0, 0});
}

TEST(SqueezeExcite, BiasesAndFunctionsMayBeAbsent) {
  std::vector<Tensor> inputs = kInputs;
  inputs[2] = inputs[4] = Tensor();
  expect_near(evaluate_op(SqueezeExcite{}, inputs)[0], {0.4, 1.2, -1.6, -4.8});  // gates 0.4 and -0.8
}

TEST(SqueezeExcite, ImagesAreApart) {
  std::vector<Tensor> inputs = kInputs;
  inputs[0] = f32s({2, 2, 2}, {1, 3, 2, 6, 0, 0, 0, 0});
  expect_near(evaluate_op(kOp, inputs)[0], {0.5, 1.5, 0, 0, 0, 0, 0, 0});
}

TEST(SqueezeExcite, SaysWhatIsWrong) {
  const auto with = [](size_t input, Tensor value) {
    std::vector<Tensor> inputs = kInputs;
    inputs[input] = std::move(value);
    return values_of(inputs);
  };
  const auto expect = [](const SqueezeExcite& op, const std::vector<Value>& values, const std::string& part) {
    expect_input_error([&] { infer_op(op, values); }, part);
  };
  expect(kOp, with(0, f32s({1, 2}, {1, 2})), "needs data (N, C, spatial...)");
  expect(kOp, with(1, f32s({1, 3, 1}, {1, 2, 3})), "the first weights must be 1 x 2 with ones behind");
  expect(kOp, with(3, f32s({2, 1, 2}, {1, 2, 3, 4})), "the second weights must be 2 x 1 with ones behind");
  expect(kOp, with(1, f32s({}, {1})), "the first weights are a scalar");
  expect(kOp, with(2, f32s({2}, {1, 2})), "input 2 must be a bias of 1 elements");
  expect(kOp, with(4, f32s({1}, {1})), "input 4 must be a bias of 2 elements");
  expect(kOp, with(0, Tensor::from<int64_t>({1, 2, 2}, std::vector<int64_t>{1, 2, 3, 4})),
         "takes floating point");
  expect(SqueezeExcite{.squeeze = PointwiseProgram::parse("Add(0,1)", 2)}, values_of(kInputs),
         "squeeze must be a function of one number");
  expect(SqueezeExcite{.excite = PointwiseProgram::parse("Add(0,1)", 2)}, values_of(kInputs),
         "excite must be a function of one number");
}

}  // namespace
}  // namespace lathe
