// SPDX-License-Identifier: Apache-2.0
//
// Cast, QuantizeLinear and DequantizeLinear.

#include <limits>

#include "ir/elements.h"
#include "ops/evaluate_op.h"
#include "ops/op_test.h"

namespace lathe {
namespace {

TEST(Cast, FloatsToIntegersTruncate) {
  EXPECT_EQ(evaluate_op(Cast{DType::Int32}, {f32s({-1.9f, 1.9f, 1e30f})})[0].to_int64s(),
            (std::vector<int64_t>{-1, 1, std::numeric_limits<int32_t>::max()}));
  EXPECT_EQ(evaluate_op(Cast{DType::Bool}, {f32s({0, -0.0f, 0.5f})})[0].to_int64s(),
            (std::vector<int64_t>{0, 0, 1}));
}

TEST(Cast, IntegersKeepTheirLowBits) {
  const Tensor x = Tensor::from<int16_t>({2}, {200, -1});
  EXPECT_EQ(evaluate_op(Cast{DType::Int8}, {x})[0].to_int64s(), (std::vector<int64_t>{-56, -1}));
  const Tensor big = Tensor::from<int64_t>({1}, {(int64_t{1} << 53) + 1});
  EXPECT_EQ(evaluate_op(Cast{DType::UInt64}, {big})[0].to_int64s(), big.to_int64s());
}

TEST(Cast, SmallFloatsRoundAndSaturate) {
  expect_near(evaluate_op(Cast{DType::BFloat16}, {f32s({1.00390625f, 3.0e38f})})[0], {1.0, 3.00405e38}, 1e35);
  expect_near(evaluate_op(Cast{DType::Float8E4M3FN}, {f32s({1000})})[0], {448});
  Cast open{DType::Float8E5M2, false};
  EXPECT_TRUE(std::isinf(evaluate_op(open, {f32s({1e6f})})[0].to_doubles()[0]));
}

TEST(Cast, PackedInt4RoundTrips) {
  const Tensor x = Tensor::from<int8_t>({3}, {-8, 7, -1});
  const Tensor packed = evaluate_op(Cast{DType::Int4}, {x})[0];
  EXPECT_EQ(packed.bytes().size(), 2u);
  EXPECT_EQ(evaluate_op(Cast{DType::Int8}, {packed})[0].to_int64s(), x.to_int64s());
}

TEST(Cast, TypesOfTwoBitsKeepLowBits) {
  const Tensor x = Tensor::from<float>({7}, {-3, -2, -1, 0, 1, 2, 3});
  EXPECT_EQ(evaluate_op(Cast{DType::Int2}, {x})[0].to_int64s(),
            (std::vector<int64_t>{1, -2, -1, 0, 1, -2, -1}));
  EXPECT_EQ(evaluate_op(Cast{DType::UInt2}, {x})[0].to_int64s(), (std::vector<int64_t>{1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(evaluate_op(Cast{DType::UInt2}, {x})[0].bytes().size(), 2u);
}

TEST(Cast, PowersOfTwoRoundAsAsked) {
  const auto cast = [](E8M0Rounding round, bool saturate = true) {
    const Cast op{.to = DType::Float8E8M0, .saturate = saturate, .round = round};
    return evaluate_op(op, {Tensor::from<float>({4}, {1.25f, 1.5f, 4, 0})})[0].to_doubles();
  };
  EXPECT_EQ(cast(E8M0Rounding::Up), (std::vector<double>{2, 2, 4, 0x1p-127}));
  EXPECT_EQ(cast(E8M0Rounding::Down), (std::vector<double>{1, 1, 4, 0x1p-127}));
  EXPECT_EQ(cast(E8M0Rounding::Nearest), (std::vector<double>{1, 2, 4, 0x1p-127}));
  EXPECT_TRUE(std::isnan(cast(E8M0Rounding::Nearest, false)[3]));
}

TEST(Elements, EveryTypeReadsWhatItWrote) {
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.dtype == DType::Undefined || info.dtype == DType::Float8E8M0) continue;  // E8M0 has no zero
    const std::vector<double> values = {0, 1, 1, 0, 1};
    Tensor t = Tensor::allocate(info.dtype, {5});
    ElementWriter(t).store_doubles(0, 5, values.data());
    EXPECT_EQ(t.to_doubles(), values) << info.name;  // the tensor's own reader agrees
    std::vector<double> back(3);
    load_doubles(t, 2, 3, back.data());
    EXPECT_EQ(back, (std::vector<double>{1, 0, 1})) << info.name;
    std::vector<int64_t> integers(3);
    load_int64s(t, 2, 3, integers.data());
    EXPECT_EQ(integers, (std::vector<int64_t>{1, 0, 1})) << info.name;
  }
}

TEST(QuantizeLinear, RoundsHalfToEvenAndSaturates) {
  const Tensor zero = Tensor::from<uint8_t>({}, {10});
  const Tensor y =
      evaluate_op(QuantizeLinear{}, {f32s({-100, 1, 3, 5, 1000}), Tensor::scalar_f32(2), zero})[0];
  EXPECT_EQ(y.to_int64s(), (std::vector<int64_t>{0, 10, 12, 12, 255}));  // 0.5 -> 0, 1.5 -> 2, 2.5 -> 2
}

TEST(QuantizeLinear, PerAxisAndBlocks) {
  const Tensor x = ramp({2, 4});
  QuantizeLinear op{0, 0, DType::Int8};
  EXPECT_EQ(evaluate_op(op, {x, f32s({1, 2})})[0].to_int64s(),
            (std::vector<int64_t>{0, 1, 2, 3, 2, 2, 3, 4}));
  op = {1, 3, DType::Int8};
  const Tensor scale = Tensor::from<float>({2, 2}, {1, 3, 2, 7});
  EXPECT_EQ(evaluate_op(op, {x, scale})[0].to_int64s(), (std::vector<int64_t>{0, 1, 2, 1, 2, 2, 3, 1}));
}

TEST(DequantizeLinear, UndoesQuantization) {
  const Tensor x = Tensor::from<int8_t>({2, 2}, {-128, 0, 127, 5}), zero = Tensor::from<int8_t>({2}, {0, 5});
  expect_near(evaluate_op(DequantizeLinear{1, 0, DType::Float32}, {x, f32s({0.5f, 2}), zero})[0],
              {-64, -10, 63.5, 0});
  const Tensor half = evaluate_op(DequantizeLinear{1, 0, DType::Float16}, {x, Tensor::scalar_f32(1)})[0];
  expect_near(half, {-128, 0, 127, 5});
}

TEST(Quantization, ErrorsGiveTheExpectedShape) {
  const Tensor x = ramp({2, 4});
  expect_input_error(
      [&] {
        evaluate_op(QuantizeLinear{1}, {x, f32s({1, 2})});
      },
      "the scale has shape [2], expected 4 elements");
  expect_input_error([&] { evaluate_op(QuantizeLinear{1, 2}, {x, f32s({1})}); }, "expected the same rank");
  expect_input_error([&] { evaluate_op(QuantizeLinear{1, 2}, {x, ramp({2, 3})}); }, "expected 2 in dim 1");
  expect_input_error([&] { evaluate_op(QuantizeLinear{1, -1}, {x, f32s({1})}); }, "block_size is -1");
  expect_input_error(
      [&] {
        evaluate_op(QuantizeLinear{}, {x, Tensor::from<int32_t>({}, {1})});
      },
      "the scale must be floating point");
}

}  // namespace
}  // namespace lathe
