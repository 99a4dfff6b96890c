// SPDX-License-Identifier: Apache-2.0
//
// DFT, STFT and MelWeightMatrix as generated kernels.
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily mel_family();
GeneratedFamily transform_family();
namespace {

CheckedInput number(int64_t value, bool constant) {
  return {.dtype = DType::Int64, .extents = {}, .constant = constant, .value = Tensor::scalar_i64(value)};
}

// Lengths of one stage and of several, primes among them; real and complex points; cut, and filled with
// zeros.
TEST(CudaTransform, Lengths) {
  std::vector<LayerCase> cases;
  for (const bool inverse : {false, true})
    for (const int64_t n : {1, 2, 7, 30, 64, 67, 90, 646}) {
      cases.push_back({.op = DFT{.inverse = inverse},
                       .inputs = {{.extents = {2, n, 3, 2}}, {.absent = true}, number(1, true)}});
      cases.push_back({.op = DFT{.inverse = inverse}, .inputs = {{.extents = {3, n, 2 - n % 2}}}});
    }
  for (const int64_t length : {5, 20, 96, 1024})
    cases.push_back(
        {.op = DFT{}, .inputs = {{.extents = {2, 18, 2}}, number(length, true), number(-2, true)}});
  for (LayerCase& layer : cases) layer.allowed_types = {DType::Float16};
  EXPECT_EQ(check_generated(transform_family(), cases), 2 * static_cast<int>(cases.size()));
}

TEST(CudaTransform, OneSided) {
  std::vector<LayerCase> cases;
  for (const int64_t n : {2, 9, 16, 80}) {
    cases.push_back({.op = DFT{.onesided = true}, .inputs = {{.extents = {2, n, 1}}}});
    const DFT inverse{.inverse = true, .onesided = true};
    cases.push_back({.op = inverse, .inputs = {{.extents = {2, n / 2 + 1, 2}}}});
    cases.push_back(
        {.op = inverse, .inputs = {{.extents = {2, n / 2 + 1, 2}}, number(n + 1, true), number(1, true)}});
  }
  EXPECT_EQ(check_generated(transform_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaTransform, LengthsAndAxesOfTheRun) {
  std::vector<LayerCase> cases;
  for (const int64_t axis : {0, 1, -2})
    for (const bool onesided : {false, true}) {
      const DFT op{.onesided = onesided};
      const CheckedInput x{.extents = {4, 6, 10, 1}};
      cases.push_back({.op = op, .inputs = {x, {.absent = true}, number(axis, false)}});
      cases.push_back({.op = op, .inputs = {x, number(8, false), number(axis, false)}});
      cases.push_back({.op = op, .inputs = {x, number(8, false), number(axis, true)}});
    }
  cases.push_back({.op = DFT{}, .inputs = {{.extents = {3, 90, 2}}}, .dynamic_batch = true});
  EXPECT_EQ(check_generated(transform_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaTransform, Doubles) {
  std::vector<LayerCase> cases;
  for (const int64_t n : {12, 72})
    cases.push_back(
        {.op = DFT{}, .inputs = {{.dtype = DType::Float64, .extents = {3, n, 2}}}, .tolerance = 1e-13});
  EXPECT_EQ(check_generated(transform_family(), cases), 2);
}

TEST(CudaTransform, Frames) {
  std::vector<LayerCase> cases;
  for (const bool onesided : {true, false})
    for (const bool known : {true, false})
      for (const int64_t points : {8, 66}) {
        const CheckedInput signal{.extents = {2, 130, onesided ? 1 : 2}};
        cases.push_back({.op = STFT{.onesided = onesided},
                         .inputs = {signal, number(5, known), {.extents = {points}, .constant = known}}});
        cases.push_back({.op = STFT{.onesided = onesided},
                         .inputs = {signal, number(9, known), {.absent = true}, number(points, known)}});
      }
  cases.push_back({.op = STFT{}, .inputs = {{.extents = {2, 30, 1}}, number(1, true)}});
  EXPECT_EQ(check_generated(transform_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaMel, NumbersOfTheRun) {
  const auto edge = [](double hertz) {
    return CheckedInput{.extents = {}, .constant = true, .low = hertz, .high = hertz + 1e-3};
  };
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Float32, DType::Float16, DType::Float64})
    for (const bool known : {true, false})
      cases.push_back({.op = MelWeightMatrix{type},
                       .inputs = {number(20, known), number(256, known), number(16000, known), edge(0),
                                  edge(known ? 8000 : 3300)}});
  cases.push_back(
      {.op = MelWeightMatrix{},
       .inputs = {number(64, false), number(16, false), number(8192, false), edge(0), edge(4096)}});
  EXPECT_EQ(check_generated(mel_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaTransform, Tails) {
  EXPECT_EQ(check_generated(transform_family(), {{.op = DFT{},
                                                  .inputs = {{.extents = {3, 20, 1}}},
                                                  .epilogue = PointwiseProgram::parse("Mul(0,1) Abs(2)", 2),
                                                  .operands = {{.extents = {20, 1}}}}}),
            1);
}

}  // namespace
}  // namespace lathe::cuda
