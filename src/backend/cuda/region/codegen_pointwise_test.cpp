// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily pointwise_family();
namespace {

// A case of these extents for each operation on floats; logarithms and roots get positive numbers.
std::vector<LayerCase> float_cases(DType type, const Extents& extents) {
  std::vector<LayerCase> cases;
  for (const PointwiseInfo& info : all_pointwise()) {
    if (info.code == PointwiseCode::Not || info.code == PointwiseCode::BitwiseNot) continue;
    if (info.code >= PointwiseCode::And && info.code <= PointwiseCode::ShiftRight) continue;
    if (info.code == PointwiseCode::Where) continue;
    const bool positive = info.code == PointwiseCode::Log || info.code == PointwiseCode::Sqrt ||
                          info.code == PointwiseCode::Rsqrt || info.code == PointwiseCode::Pow;
    LayerCase layer{.op = Pointwise{info.code, 0.5f, 0.75f}};
    for (int i = 0; i < info.arity; ++i)
      layer.inputs.push_back({.dtype = type, .extents = extents, .low = positive ? 0.1 : -3, .high = 3});
    cases.push_back(layer);
  }
  return cases;
}

TEST(CudaPointwise, EveryFloatOperation) {
  const std::vector<LayerCase> cases = float_cases(DType::Float32, {2, 67});
  EXPECT_EQ(check_generated(pointwise_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaPointwise, Integers) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Int64, DType::Int32, DType::UInt8})
    for (const auto code : {PointwiseCode::Add, PointwiseCode::Mul, PointwiseCode::Div, PointwiseCode::Mod,
                            PointwiseCode::Max, PointwiseCode::Less, PointwiseCode::Sub}) {
      cases.push_back({.op = Pointwise{code},
                       .inputs = {{.dtype = type, .extents = {5, 9}, .low = 0, .high = 90},
                                  {.dtype = type, .extents = {9}, .low = 1, .high = 5}}});
    }
  cases.push_back({.op = Pointwise{PointwiseCode::Where},
                   .inputs = {{.dtype = DType::Bool, .extents = {4, 1}, .low = 0, .high = 2},
                              {.extents = {4, 6}},
                              {.extents = {}, .constant = true}}});
  EXPECT_EQ(check_generated(pointwise_family(), cases), static_cast<int>(cases.size()));
}

// Scales and zero points for the tensor and along an axis, constant or not; integers are the oracle's
// exactly.
TEST(CudaPointwise, Quantization) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Int8, DType::UInt8, DType::Int16})
    for (const bool constant : {false, true})
      for (const Extents& extents : std::vector<Extents>{{}, {6}}) {
        const CheckedInput scale{.extents = extents, .constant = constant, .low = 0.01, .high = 0.5};
        const CheckedInput zero{.dtype = type, .extents = extents, .constant = constant, .low = 0, .high = 9};
        cases.push_back({.op = QuantizeLinear{.axis = 1, .to = type},
                         .inputs = {{.extents = {2, 6, 5, 3}, .low = -60, .high = 60}, scale, zero}});
        cases.push_back(
            {.op = DequantizeLinear{.axis = 1},
             .inputs = {{.dtype = type, .extents = {2, 6, 5, 3}, .low = 0, .high = 120}, scale, zero}});
      }
  for (const DType type : {DType::Float8E4M3FN, DType::Float8E5M2})
    for (const bool constant : {false, true})
      cases.push_back({.op = DequantizeLinear{.axis = 1},
                       .inputs = {{.dtype = type, .extents = {2, 6, 5}, .low = -2, .high = 2},
                                  {.extents = {6}, .constant = constant, .low = 0.01, .high = 0.5}}});
  cases.push_back({.op = QuantizeLinear{.to = DType::UInt8},
                   .inputs = {{.extents = {4, 9}, .low = -60, .high = 60}, {.extents = {1}, .low = 0.1}}});
  EXPECT_GE(check_generated(pointwise_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaPointwise, BroadcastOperandsInAllFormats) {
  std::vector<LayerCase> cases;
  for (const int64_t c : {8, 13}) {
    LayerCase layer{
        .op = PointwiseChain{PointwiseProgram::parse("Mul(0,1) Add(5,2) Add(6,3) Silu[1,0](7) Mul(8,4)", 5)},
        .inputs = {{.extents = {2, c, 5, 8}},
                   {.extents = {c, 1, 1}, .constant = true},
                   {.extents = {2, c, 5, 8}},
                   {.extents = {2, c, 1, 1}},
                   {.extents = {1}, .constant = true}},
        .allowed_types = kHalves};
    cases.push_back(layer);
    layer.inputs[3].extents = {8};
    cases.push_back(layer);
    layer.inputs[1].constant = false;
    layer.dynamic_batch = true;
    layer.inputs[1].extents = {1, c, 1, 1};
    cases.push_back(layer);
  }
  EXPECT_EQ(check_generated(pointwise_family(), cases), 36);
}

TEST(CudaPointwise, CastsAndEpilogue) {
  const DType types[] = {DType::Float32, DType::Float16, DType::BFloat16, DType::Int64,
                         DType::Int32,   DType::UInt8,   DType::Bool};
  std::vector<LayerCase> cases;
  for (const DType from : types)
    for (const DType to : types)
      cases.push_back({.op = Cast{to}, .inputs = {{.dtype = from, .extents = {37}, .low = 0, .high = 9}}});
  cases.push_back({.op = Cast{DType::Float32},
                   .inputs = {{.dtype = DType::Int64, .extents = {4, 6}}},
                   .epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2),
                   .operands = {{.extents = {6}}}});
  EXPECT_EQ(check_generated(pointwise_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaPointwise, BatchNormIsPerChannel) {
  LayerCase layer{.op = BatchNorm{}, .inputs = {{.extents = {2, 6, 4, 4}}}, .allowed_types = kHalves};
  for (int i = 0; i < 4; ++i)
    layer.inputs.push_back({.extents = {6}, .constant = true, .low = 0.5, .high = 2});
  EXPECT_EQ(check_generated(pointwise_family(), {layer}), 6);
}

TEST(CudaPointwise, Doubles) {
  std::vector<LayerCase> cases = float_cases(DType::Float64, {2, 7});
  for (LayerCase& layer : cases) layer.tolerance = 1e-14;
  const CheckedInput x{.dtype = DType::Float64, .extents = {4, 6}};
  cases.push_back({.op = PointwiseChain{PointwiseProgram::parse("Add(0,1) Greater(2,0) Where(3,2,1)", 2)},
                   .inputs = {x, {.dtype = DType::Float64, .extents = {}, .constant = true}}});
  EXPECT_EQ(check_generated(pointwise_family(), cases), static_cast<int>(cases.size()));
}

// Each step keeps what its type holds before the next one reads it.
TEST(CudaPointwise, IntegersInChainsWrapAround) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Int32,
                           DType::UInt32, DType::Int64, DType::UInt64}) {
    const bool has_sign =
        type == DType::Int8 || type == DType::Int16 || type == DType::Int32 || type == DType::Int64;
    const int bits = static_cast<int>(dtype_info(type).bits);
    const double high = std::ldexp(0.99, has_sign ? bits - 1 : bits), low = has_sign ? -high : 0;
    cases.push_back({.op = PointwiseChain{PointwiseProgram::parse("Add(0,1) Mul(2,0) Max(3,1) Div(4,1)", 2)},
                     .inputs = {{.dtype = type, .extents = {3, 21}, .low = low, .high = high},
                                {.dtype = type, .extents = {21}, .low = low, .high = high}}});
  }
  EXPECT_EQ(check_generated(pointwise_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaPointwise, UnsignedIntegersOf64Bits) {
  const uint64_t top = uint64_t{1} << 63;
  const CheckedInput x{
      .dtype = DType::UInt64,
      .extents = {6},
      .value = Tensor::from<uint64_t>({6}, std::vector<uint64_t>{0, 1, 7, top, top + 9, ~0ull})};
  const CheckedInput y{.dtype = DType::UInt64,
                       .extents = {6},
                       .value = Tensor::from<uint64_t>({6}, std::vector<uint64_t>{3, 0, 2, 5, top + 7, 64})};
  std::vector<LayerCase> cases;
  for (const PointwiseInfo& info : all_pointwise()) {
    const bool integers = info.code >= PointwiseCode::BitwiseAnd || info.code == PointwiseCode::BitwiseNot;
    const bool both = info.code == PointwiseCode::Abs || info.code == PointwiseCode::Sign ||
                      info.code == PointwiseCode::Relu ||
                      (info.code >= PointwiseCode::Add && info.code <= PointwiseCode::PRelu);
    if ((!integers && !both) || info.code == PointwiseCode::Where) continue;
    LayerCase layer{.op = Pointwise{info.code}, .inputs = {x}};
    if (info.arity == 2) layer.inputs.push_back(y);
    cases.push_back(layer);
  }
  for (const DType to :
       {DType::Float32, DType::Float16, DType::Float64, DType::Int8, DType::Int64, DType::Bool})
    cases.push_back({.op = Cast{to}, .inputs = {x}});
  EXPECT_EQ(check_generated(pointwise_family(), cases), static_cast<int>(cases.size()));
}

// Integers saturate, floats of 8 bits as the Cast says.
TEST(CudaPointwise, CastsOfEdges) {
  const DType wide[] = {DType::Float32, DType::Float64};
  const DType narrow[] = {
      DType::Int8,       DType::UInt8,          DType::Int16,      DType::Int32,        DType::UInt32,
      DType::Int64,      DType::UInt64,         DType::Bool,       DType::Float8E4M3FN, DType::Float8E4M3FNUZ,
      DType::Float8E5M2, DType::Float8E5M2FNUZ, DType::Float8E8M0, DType::BFloat16,     DType::Float64};
  const std::vector<double> edges = {0,    -0.0, 0.3, -0.7,  1.5,   127.5, -128.7, 255.9,   447,
                                     448,  464,  465, 57344, 61439, 61441, -65504, 2e-3,    -9e-4,
                                     1e-5, 7e-6, 240, 248,   1e10,  -1e10, 9.3e18, -9.3e18, 2e19};
  std::vector<LayerCase> cases;
  for (const DType from : wide)
    for (const DType to : narrow)
      for (const bool saturate : {true, false}) {
        if (from != DType::Float32 && is_float(to) && to != DType::Float8E8M0) continue;
        if (from == to || (!saturate && (!is_float(to) || dtype_info(to).bits > 8))) continue;
        const auto count = static_cast<int64_t>(edges.size());
        cases.push_back(
            {.op = Cast{to, saturate, saturate ? E8M0Rounding::Nearest : E8M0Rounding::Down},
             .inputs = {
                 {.dtype = from, .extents = {count}, .value = Tensor::from_doubles(from, {count}, edges)}}});
      }
  // Back from every code.
  std::vector<std::byte> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  for (const DType from : narrow)
    if (dtype_info(from).bits == 8 && is_float(from))
      for (const DType to : {DType::Float32, DType::Float16, DType::Int8})
        cases.push_back(
            {.op = Cast{to},
             .inputs = {
                 {.dtype = from, .extents = {256}, .value = Tensor::wrap(from, {256}, codes, nullptr)}}});
  EXPECT_EQ(check_generated(pointwise_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaPointwise, RefusesIntegersOfFourBits) {
  const auto reasons = generated_refusals(
      pointwise_family(),
      {.op = Pointwise{PointwiseCode::Relu}, .inputs = {{.dtype = DType::Int4, .extents = {3}}}});
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("no kernel for int4"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cuda
