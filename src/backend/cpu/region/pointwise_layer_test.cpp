// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/pointwise_loops.h"

namespace lathe::cpu {
TacticFamily pointwise_tactics();
namespace {

LayerCase unary(PointwiseCode code, float alpha, float beta, Extents extents, double low, double high) {
  return {.op = Pointwise{code, alpha, beta},
          .inputs = {{.extents = std::move(extents), .low = low, .high = high}}};
}

TEST(PointwiseLayer, UnaryOperations) {
  struct Case {
    PointwiseCode code;
    float alpha = 0, beta = 0;
    double low = -9, high = 9;
  };
  using C = PointwiseCode;
  const Case cases[] = {{C::Identity},
                        {C::Abs},
                        {C::Neg},
                        {C::Sign},
                        {C::Reciprocal, 0, 0, 0.1, 9},
                        {C::Sqrt, 0, 0, 0, 9},
                        {C::Rsqrt, 0, 0, 0.1, 9},
                        {C::Square},
                        {C::Exp},
                        {C::Log, 0, 0, 1e-3, 50},
                        {C::Sin},
                        {C::Sin, 0, 0, -2e5, 2e5},
                        {C::Sin, 0, 0, -1e-3, 1e-3},
                        {C::Cos},
                        {C::Cos, 0, 0, -1e10, 1e10},
                        {C::Tan, 0, 0, -1.5, 1.5},
                        {C::Tan, 0, 0, -1e10, 1e10},
                        {C::Asin, 0, 0, -1, 1},
                        {C::Asin, 0, 0, -1e-3, 1e-3},
                        {C::Acos, 0, 0, -1, 1},
                        {C::Atan},
                        {C::Sinh, 0, 0, -89, 89},
                        {C::Sinh, 0, 0, -1, 1},
                        {C::Cosh, 0, 0, -89, 89},
                        {C::Tanh},
                        {C::Asinh, 0, 0, -1, 1},
                        {C::Asinh, 0, 0, -1e30, 1e30},
                        {C::Acosh, 0, 0, 1, 1.1},
                        {C::Acosh, 0, 0, -1, 1e30},
                        {C::Atanh, 0, 0, -1.1, 1.1},
                        {C::Erf, 0, 0, -4, 4},
                        {C::Ceil},
                        {C::Floor},
                        {C::Round},
                        {C::IsNaN},
                        {C::Relu},
                        {C::Sigmoid},
                        {C::Softplus},
                        {C::Softsign},
                        {C::HardSwish},
                        {C::Mish},
                        {C::Silu, 1},
                        {C::Silu, 1.7f},
                        {C::GeluErf},
                        {C::GeluTanh},
                        {C::LeakyRelu, 0.1f},
                        {C::Elu, 1.3f},
                        {C::Celu, 0.7f},
                        {C::Selu, 1.67f, 1.05f},
                        {C::ThresholdedRelu, 1},
                        {C::HardSigmoid, 0.2f, 0.5f},
                        {C::Clip, -1, 2.5f},
                        {C::Shrink, 0.5f, 1},
                        {C::IsInf, 1, 1},
                        {C::Linear, 2, -1},
                        {C::RoundTo, 0.25f},
                        {C::RoundToE4M3, 0.25f},
                        {C::RoundToE4M3, 0.001f},
                        {C::RoundToE4M3, 100}};
  for (const Case& c : cases) {
    SCOPED_TRACE(enum_name(c.code));
    EXPECT_GE(check_layer(pointwise_tactics(), unary(c.code, c.alpha, c.beta, {3, 37}, c.low, c.high)), 1);
  }
}

TEST(PointwiseLayer, SmallArgumentsKeepRelativeAccuracy) {
  for (const auto code :
       {PointwiseCode::Tanh, PointwiseCode::Erf, PointwiseCode::GeluErf, PointwiseCode::GeluTanh})
    EXPECT_GE(check_layer(pointwise_tactics(), unary(code, 0, 0, {1000}, -1e-3, 1e-3)), 1);
  // Elu's exp(x) - 1 and GELU's far negative side cancel when they are written down naively.
  EXPECT_GE(check_layer(pointwise_tactics(), unary(PointwiseCode::Elu, 1, 0, {1000}, -1e-3, 0)), 1);
  EXPECT_GE(check_layer(pointwise_tactics(), unary(PointwiseCode::GeluErf, 0, 0, {1000}, -5, -3)), 1);
}

TEST(PointwiseLayer, BinaryBroadcastInEveryFormat) {
  const Extents x = {2, 21, 5, 7};
  for (const Extents& y : std::vector<Extents>{{2, 21, 5, 7},
                                               {2, 21, 1, 1},
                                               {1, 21, 1, 1},
                                               {21, 1, 1},
                                               {21, 5, 1},
                                               {21, 1, 7},
                                               {21, 5, 7},
                                               {1},
                                               {7},
                                               {5, 1},
                                               {2, 1, 5, 7},
                                               {1, 1, 5, 1},
                                               {2, 1, 1, 1}})
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(to_string(y) + (constant ? " constant" : ""));
      for (const auto code : {PointwiseCode::Sub, PointwiseCode::Div}) {
        const LayerCase layer{.op = Pointwise{code},
                              .inputs = {{.extents = x}, {.extents = y, .constant = constant, .low = 0.5}},
                              .allowed_types = {DType::BFloat16}};
        EXPECT_GE(check_layer(pointwise_tactics(), layer), 4);
      }
    }
}

TEST(PointwiseLayer, BinaryOperations) {
  using C = PointwiseCode;
  for (const C code : {C::Add, C::Sub, C::Mul, C::Div, C::Min, C::Max, C::PRelu, C::FMod, C::Mod, C::Pow,
                       C::Less, C::LessOrEqual, C::Greater, C::GreaterOrEqual, C::Equal}) {
    SCOPED_TRACE(enum_name(code));
    for (const Extents& a : std::vector<Extents>{{4, 33}, {1, 33}, {1}})
      EXPECT_GE(check_layer(pointwise_tactics(),
                            {.op = Pointwise{code},
                             .inputs = {{.extents = a, .low = 0.25}, {.extents = {4, 33}, .low = 0.25}}}),
                1);
  }
}

// One at a time libm takes ten times as long.
TEST(PointwiseLayer, EveryOperationOfFloatsHasAVectorLoop) {
  for (const Isa isa : {Isa::Avx2, Isa::Avx512}) {
    const PointwiseTable& table = pointwise_table(isa);
    for (const PointwiseInfo& info : all_pointwise()) {
      if (is_bitwise(info.code) || info.code == PointwiseCode::Where) continue;
      EXPECT_TRUE(unary_loop(table, info.code) || binary_loops(table, info.code).vector_vector) << info.name;
    }
  }
}

// Signs, zeros, infinities and ones among bases and exponents.
TEST(PointwiseLayer, PowersAndRemaindersOfAnyNumbers) {
  using C = PointwiseCode;
  for (const C code : {C::Pow, C::Mod, C::FMod})
    for (const double range : {3.0, 12.0, 1e20}) {
      SCOPED_TRACE(std::string(enum_name(code)) + " " + std::to_string(range));
      for (const double low : {-range, 0.0})
        EXPECT_GE(
            check_layer(pointwise_tactics(), {.op = Pointwise{code},
                                              .inputs = {{.extents = {60, 1}, .low = low, .high = range},
                                                         {.extents = {1, 90}, .low = -12, .high = 12}}}),
            1);
      // Whole exponents of numbers of either sign.
      EXPECT_GE(check_layer(pointwise_tactics(),
                            {.op = PointwiseChain{PointwiseProgram::parse(
                                 "Round(0) Round(1) " + std::string(enum_name(code)) + "(2,3)", 2)},
                             .inputs = {{.extents = {60, 1}, .low = -range, .high = range},
                                        {.extents = {1, 90}, .low = -4.5, .high = 4.5}}}),
                1);
    }
}

TEST(PointwiseLayer, WhereAndLogic) {
  EXPECT_GE(check_layer(pointwise_tactics(), {.op = Pointwise{PointwiseCode::Where},
                                              .inputs = {{.dtype = DType::Bool, .extents = {3, 1, 19}},
                                                         {.extents = {3, 40, 19}},
                                                         {.extents = {}}}}),
            1);
  EXPECT_GE(check_layer(pointwise_tactics(), {.op = Pointwise{PointwiseCode::And},
                                              .inputs = {{.dtype = DType::Bool, .extents = {3, 1, 19}},
                                                         {.dtype = DType::Bool, .extents = {3, 4, 19}}}}),
            1);
}

TEST(PointwiseLayer, ChainWithEpilogueOperands) {
  LayerCase layer{.op = PointwiseChain{PointwiseProgram::parse("Mul(0,1) Sigmoid(2) Add(2,3)", 2)},
                  .inputs = {{.extents = {2, 24, 9, 5}}, {.extents = {1, 24, 1, 1}, .constant = true}},
                  .epilogue = PointwiseProgram::parse("Sub(0,1) Relu(3) Mul(4,2)", 3),
                  .operands = {{.extents = {2, 24, 9, 5}}, {.extents = {2, 24, 1, 1}}},
                  .allowed_types = {DType::BFloat16}};
  layer.tolerance = 4e-6;
  EXPECT_GE(check_layer(pointwise_tactics(), layer), 5);
}

// Step i squares the input; all squares are added up at the end, so that every one of them stays alive.
PointwiseProgram squares_kept_alive(int count) {
  PointwiseProgram program;
  program.input_count = 1;
  for (int i = 0; i < count; ++i) program.steps.push_back({PointwiseCode::Square, 0, 0, {0}});
  for (int i = 1; i < count; ++i)
    program.steps.push_back({PointwiseCode::Add, 0, 0, {i == 1 ? 1 : count + i - 1, i + 1}});
  return program;
}

TEST(PointwiseLayer, LongProgramsRunOrAreRefused) {
  const auto layer = [](int count) {
    return LayerCase{.op = PointwiseChain{squares_kept_alive(count)}, .inputs = {{.extents = {7, 100}}}};
  };
  EXPECT_GE(check_layer(pointwise_tactics(), layer(20)), 1);
  const auto reasons = refusals(pointwise_tactics(), layer(30));
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("more than 24 values alive"), std::string::npos) << reasons[0];
}

TEST(PointwiseLayer, Casts) {
  for (const DType from :
       {DType::Float32, DType::BFloat16, DType::Float16, DType::Bool, DType::Int32, DType::UInt8})
    for (const DType to : {DType::Float32, DType::BFloat16, DType::Float16}) {
      SCOPED_TRACE(std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
      EXPECT_GE(check_layer(pointwise_tactics(),
                            {.op = Cast{.to = to},
                             .inputs = {{.dtype = from, .extents = {5, 77}, .low = 0, .high = 90}}}),
                1);
    }
}

// Toward zero, and the nearest of the type where there is no such integer.
TEST(PointwiseLayer, CastsToIntegers) {
  for (const DType from : {DType::Float32, DType::Float16})
    for (const DType to :
         {DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Int32, DType::Int64}) {
      SCOPED_TRACE(std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
      EXPECT_GE(check_layer(pointwise_tactics(),
                            {.op = Cast{.to = to},
                             .inputs = {{.dtype = from, .extents = {5, 777}, .low = -300, .high = 300}}}),
                1);
    }
}

// The last step of all of these decides a whole integer, and the oracle's is met exactly.
TEST(PointwiseLayer, Quantization) {
  const CheckedInput scales{.extents = {6}, .constant = true, .low = 0.01, .high = 0.5};
  for (const DType type : {DType::Int8, DType::UInt8, DType::Int16, DType::UInt16})
    for (const bool constant : {false, true})
      for (const Extents& extents : std::vector<Extents>{{}, {1}, {6}}) {
        SCOPED_TRACE(std::string(dtype_name(type)) + " scale " + to_string(extents));
        CheckedInput scale = scales, zero{.dtype = type, .extents = extents, .constant = constant, .high = 9};
        zero.low = 0;
        scale.extents = extents;
        scale.constant = constant;
        EXPECT_GE(check_layer(pointwise_tactics(),
                              {.op = QuantizeLinear{.axis = 1, .to = type},
                               .inputs = {{.extents = {2, 6, 5, 3}, .low = -60, .high = 60}, scale, zero},
                               .all_bits = true}),
                  1);
        EXPECT_GE(
            check_layer(
                pointwise_tactics(),
                {.op = DequantizeLinear{.axis = -3},
                 .inputs = {{.dtype = type, .extents = {2, 6, 5, 3}, .low = 0, .high = 120}, scale, zero}}),
            1);
      }
  const auto reasons =
      refusals(pointwise_tactics(), {.op = QuantizeLinear{.axis = 1, .block_size = 3, .to = DType::Int8},
                                     .inputs = {{.extents = {2, 6}}, {.extents = {2, 2}, .low = 0.1}}});
  EXPECT_TRUE(reasons.empty()) << "a quantisation by blocks is not this family's: " << reasons[0];
}

// What a quantisation and its inverse become (passes/fuse_quantize_dequantize.cpp).
TEST(PointwiseLayer, RoundsToAGrid) {
  LayerCase layer{.op = PointwiseChain{PointwiseProgram::parse("Clip[-1.28,1.27](0) RoundTo[0.01](1)", 1)},
                  .inputs = {{.extents = {2, 24, 9, 5}}},
                  .allowed_types = {DType::BFloat16}};
  EXPECT_GE(check_layer(pointwise_tactics(), layer), 3);
}

TEST(PointwiseLayer, RefusesWhatNeedsIntegers) {
  const auto reasons = refusals(pointwise_tactics(), {.op = Pointwise{PointwiseCode::Add},
                                                      .inputs = {{.dtype = DType::Int64, .extents = {4}},
                                                                 {.dtype = DType::Int64, .extents = {4}}}});
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("does not write int64"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
