// SPDX-License-Identifier: Apache-2.0

#include "ops/pointwise.h"

#include <limits>

#include "ops/contents.h"
#include "ops/evaluate_op.h"
#include "ops/op_test.h"
#include "ops/scalar.h"

namespace lathe {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class T>
Tensor vector_of(const std::vector<T>& values) {
  return Tensor::from<T>({static_cast<int64_t>(values.size())}, values);
}
Tensor unary(PointwiseCode code, const std::vector<float>& x, float alpha = 0, float beta = 0) {
  return evaluate_op(Pointwise{code, alpha, beta}, {f32s(x)})[0];
}

TEST(Pointwise, BroadcastsLikeNumpy) {
  const Tensor a = ramp({2, 3, 1}), b = ramp({3, 4}, 10);
  const Tensor sum = evaluate_op(Pointwise{PointwiseCode::Add}, {a, b})[0];
  EXPECT_EQ(sum.extents(), (Extents{2, 3, 4}));
  const auto data = sum.data<float>();
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) EXPECT_EQ(data[i * 12 + j * 4 + k], i * 3 + j + 10 * (j * 4 + k));
    }
  }
}

TEST(Pointwise, PiecesAndBroadcastMeetAtAnyBorder) {
  // More elements than one piece, with runs that do not divide it.
  const Tensor a = ramp({7, 3, 131}), b = ramp({3, 1}, 0.5f);
  const Tensor sum = evaluate_op(Pointwise{PointwiseCode::Mul}, {a, b})[0];
  for (int64_t i = 0; i < sum.size(); ++i) {
    EXPECT_EQ(sum.data<float>()[i], static_cast<float>(i) * 0.5f * static_cast<float>(i / 131 % 3));
  }
}

TEST(Pointwise, ActivationsAtTheirCorners) {
  expect_near(unary(PointwiseCode::Relu, {-1, 0, 2}), {0, 0, 2});
  expect_near(unary(PointwiseCode::Clip, {-9, 3, 9}, 0, 6), {0, 3, 6});
  expect_near(unary(PointwiseCode::Softplus, {-1000, 0, 1000}), {0, 0.693147, 1000});
  expect_near(unary(PointwiseCode::HardSwish, {-4, 0, 1, 4}), {0, 0, 0.6666667, 4});
  expect_near(unary(PointwiseCode::Selu, {-1, 1}, 1.67326f, 1.0507f), {-1.111330, 1.0507}, 1e-5);
  expect_near(unary(PointwiseCode::Shrink, {-2, -1, 0, 1, 2}, 0.5f, 1.5f), {-1.5, 0, 0, 0, 1.5});
  expect_near(unary(PointwiseCode::Round, {-2.5f, -1.5f, 0.5f, 1.5f}), {-2, -2, 0, 2});
  expect_near(unary(PointwiseCode::GeluErf, {-1, 0, 1}), {-0.158655, 0, 0.841345});
  expect_near(unary(PointwiseCode::GeluTanh, {1}), {0.841192}, 1e-6);
  expect_near(unary(PointwiseCode::Silu, {2}, 1), {1.761594}, 1e-6);
  expect_near(unary(PointwiseCode::Celu, {-1, 1}, 2), {-0.786939, 1}, 1e-6);
}

TEST(Pointwise, NaNPassesThroughSelections) {
  for (PointwiseCode code :
       {PointwiseCode::Relu, PointwiseCode::Clip, PointwiseCode::Sign, PointwiseCode::Shrink}) {
    EXPECT_TRUE(std::isnan(unary(code, {kNaN}, 0, 1).data<float>()[0])) << enum_name(code);
  }
  for (PointwiseCode code : {PointwiseCode::Min, PointwiseCode::Max}) {
    const Tensor r = evaluate_op(Pointwise{code}, {f32s({kNaN, 1}), f32s({1, kNaN})})[0];
    EXPECT_TRUE(std::isnan(r.data<float>()[0]) && std::isnan(r.data<float>()[1])) << enum_name(code);
  }
}

TEST(Pointwise, IntegerArithmeticTruncatesAndWraps) {
  const Tensor a = vector_of<int32_t>({-7, 7, -7, std::numeric_limits<int32_t>::min(), 5});
  const Tensor b = vector_of<int32_t>({2, -2, -2, -1, 0});
  const auto run = [&](PointwiseCode code) { return evaluate_op(Pointwise{code}, {a, b})[0].to_int64s(); };
  EXPECT_EQ(run(PointwiseCode::Div),
            (std::vector<int64_t>{-3, -3, 3, std::numeric_limits<int32_t>::min(), 0}));
  EXPECT_EQ(run(PointwiseCode::Mod), (std::vector<int64_t>{1, -1, -1, 0, 0}));
  EXPECT_EQ(run(PointwiseCode::FMod), (std::vector<int64_t>{-1, 1, -1, 0, 0}));
  const Tensor bytes =
      evaluate_op(Pointwise{PointwiseCode::Add}, {vector_of<uint8_t>({250}), vector_of<uint8_t>({10})})[0];
  EXPECT_EQ(bytes.to_int64s()[0], 4);
}

TEST(Pointwise, UnsignedSixtyFourBitValuesStayUnsigned) {
  const Tensor big = vector_of<uint64_t>({0xffffffffffffffffu, 8}), small = vector_of<uint64_t>({2, 2});
  const auto run = [&](PointwiseCode code) { return evaluate_op(Pointwise{code}, {big, small})[0]; };
  EXPECT_EQ(run(PointwiseCode::Div).data<uint64_t>()[0], 0x7fffffffffffffffu);
  EXPECT_EQ(run(PointwiseCode::ShiftRight).data<uint64_t>()[0], 0x3fffffffffffffffu);
  EXPECT_EQ(run(PointwiseCode::Max).data<uint64_t>()[0], 0xffffffffffffffffu);
  EXPECT_EQ(run(PointwiseCode::Greater).to_int64s(), (std::vector<int64_t>{1, 1}));
}

TEST(Pointwise, PowTakesAnotherExponentType) {
  const Tensor r = evaluate_op(Pointwise{PointwiseCode::Pow}, {vector_of<int64_t>({2, 3}), f32s({3, 2})})[0];
  EXPECT_EQ(r.dtype(), DType::Int64);
  EXPECT_EQ(r.to_int64s(), (std::vector<int64_t>{8, 9}));
  expect_near(evaluate_op(Pointwise{PointwiseCode::Pow}, {f32s({2, 3}), vector_of<int32_t>({-1, 2})})[0],
              {0.5, 9});
}

TEST(Pointwise, WhereAndComparisons) {
  const Tensor condition =
      evaluate_op(Pointwise{PointwiseCode::Less}, {f32s({1, 5, kNaN}), f32s({3, 3, 3})})[0];
  EXPECT_EQ(condition.dtype(), DType::Bool);
  const Tensor r =
      evaluate_op(Pointwise{PointwiseCode::Where}, {condition, f32s({1, 2, 3}), Tensor::scalar_f32(9)})[0];
  expect_near(r, {1, 9, 9});
}

TEST(Pointwise, ClassifiesInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(unary(PointwiseCode::IsInf, {inf, -inf, 1, kNaN}, 0, 1).to_int64s(),
            (std::vector<int64_t>{1, 0, 0, 0}));
  EXPECT_EQ(unary(PointwiseCode::IsNaN, {inf, kNaN}).to_int64s(), (std::vector<int64_t>{0, 1}));
}

TEST(Pointwise, RefusesWrongTypesByName) {
  const Tensor i = vector_of<int64_t>({1}), f = f32s({1});
  expect_input_error([&] { evaluate_op(Pointwise{PointwiseCode::Exp}, {i}); },
                     "Exp takes floating point, not int64");
  expect_input_error(
      [&] {
        evaluate_op(Pointwise{PointwiseCode::Add}, {i, f});
      },
      "needs operands of one type");
  expect_input_error([&] { evaluate_op(Pointwise{PointwiseCode::And}, {i, i}); }, "And takes bool");
  expect_input_error([&] { evaluate_op(Pointwise{PointwiseCode::Where}, {f, f, f}); }, "bool condition");
  expect_input_error([&] { evaluate_op(Pointwise{PointwiseCode::Add}, {f}); }, "takes 2 inputs, has 1");
  expect_input_error(
      [&] {
        evaluate_op(Pointwise{PointwiseCode::Add}, {ramp({2}), ramp({3})});
      },
      "'test' (Add of float32[2]");
}

TEST(PointwiseChain, RoundsToFloatBetweenSteps) {
  // (2^24 + 1) + 1 in float32 is 2^24 twice over; in double it would be 2^24 + 2.
  const auto program = PointwiseProgram::parse("Add(0,1) Add(2,1)", 2);
  expect_near(evaluate_op(PointwiseChain{program}, {f32s({16777216}), f32s({1})})[0], {16777216}, 0);
}

TEST(PointwiseChain, MixesTypesThroughComparisons) {
  const auto program = PointwiseProgram::parse("Greater(0,1) Where(2,0,1) Relu(3)", 2);
  expect_near(evaluate_op(PointwiseChain{program}, {f32s({-3, 4}), f32s({-2, 1})})[0], {0, 4});
}

TEST(Epilogue, EqualsTheNodesOnTheirOwn) {
  Node node;
  node.name = "sum";
  node.op = Pointwise{PointwiseCode::Add};
  node.inputs = {0, 1, 2};
  node.epilogue = PointwiseProgram::parse("Mul(0,1) Relu(2)", 2);
  const std::vector<Tensor> inputs = {f32s({1, -2}), f32s({3, 1}), Tensor::scalar_f32(0.5f)};
  expect_near(evaluate_node(node, EvaluateContext{.inputs = inputs}, DType::Float32)[0], {2, 0});
}

// --- contents of shape tensors

Dim dim(std::string_view text) {
  return Dim::parse(text);
}

TEST(Contents, StaySymbolicWhereExact) {
  const auto apply = [](PointwiseCode code, const Dim& a, const Dim& b) {
    const std::vector<Dim> operands = {a, b};
    const std::optional<Dim> result = pointwise_dim(code, operands);
    return result ? result->to_string() : "unknown";
  };
  EXPECT_EQ(apply(PointwiseCode::Add, dim("n"), 1), dim("n + 1").to_string());
  EXPECT_EQ(apply(PointwiseCode::Div, dim("n") * Dim(12), 12), "n");
  EXPECT_EQ(apply(PointwiseCode::Div, dim("n"), 2), floor_div(dim("n"), 2).to_string());
  EXPECT_EQ(apply(PointwiseCode::Div, -7, 2), "-3");  // truncated, not floored
  EXPECT_EQ(apply(PointwiseCode::Div, dim("n") - 5, dim("m")), "unknown");
  EXPECT_EQ(apply(PointwiseCode::Mod, -7, 4), "1");
  EXPECT_EQ(apply(PointwiseCode::FMod, -7, 4), "-3");
  EXPECT_EQ(apply(PointwiseCode::Mod, dim("n") - 7, 4), mod(dim("n") + 1, 4).to_string());
  EXPECT_EQ(apply(PointwiseCode::FMod, dim("n") - 7, 4), "unknown");  // may be negative
  EXPECT_EQ(apply(PointwiseCode::Div, 1, 0), "unknown");
  EXPECT_EQ(apply(PointwiseCode::Equal, dim("n"), -1), "0");
  EXPECT_EQ(apply(PointwiseCode::Equal, dim("n"), dim("n")), "1");
  EXPECT_EQ(apply(PointwiseCode::Equal, dim("n"), 1), "unknown");
  EXPECT_EQ(apply(PointwiseCode::Greater, dim("n + 1"), 0), "1");
}

TEST(Contents, QuotientsOfWhatMayBeNegativeAreTruncated) {
  const std::vector<Dim> operands = {dim("n") - 5, 4};
  const std::optional<Dim> quotient = pointwise_dim(PointwiseCode::Div, operands);
  ASSERT_TRUE(quotient.has_value());
  for (int64_t n = 0; n < 20; ++n) EXPECT_EQ(quotient->evaluate({{"n", n}}), (n - 5) / 4) << n;
}

TEST(Contents, FlowThroughPointwiseNodes) {
  std::vector<Value> values(3);
  values[0] = {.name = "condition", .dtype = DType::Bool, .shape = {2}, .contents = Shape{1, 0}};
  values[1] = {.name = "a", .dtype = DType::Int64, .shape = {2}, .contents = Shape{dim("n"), 3}};
  values[2] = {.name = "b", .dtype = DType::Int64, .shape = {}, .contents = Shape{7}};
  const auto infos = infer_op(Pointwise{PointwiseCode::Where}, values);
  ASSERT_TRUE(infos[0].contents);
  EXPECT_EQ(*infos[0].contents, (Shape{dim("n"), 7}));
}

}  // namespace
}  // namespace lathe
