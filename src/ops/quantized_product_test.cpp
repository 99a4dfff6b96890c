// SPDX-License-Identifier: Apache-2.0
//
// What layers compute whose operands are stored as integers of a grid.
#include "ops/quantized_product.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/build.h"
#include "ops/interpreter.h"

namespace lathe {
namespace {

std::vector<Tensor> run(const std::string& statements, std::vector<Tensor> inputs) {
  const Graph graph = parse_graph("graph \"g\" {\n" + statements + "\n}");
  verify_graph(graph);
  return interpret(graph, inputs);
}

// Sums of more than 24 bits.
TEST(QuantizedProduct, SumsAreExact) {
  std::vector<uint8_t> x(3 * 65536 / 255 + 1, 255);
  const auto k = static_cast<int64_t>(x.size());
  const std::string text = "  input %x: uint8[1, " + std::to_string(k) +
                           "] quantized uint8 scale [1] zero [0]\n" + "  const %w: float32[" +
                           std::to_string(k) + ", 1] quantized int8 scale [1] zero [0] = splat 127\n" +
                           "  %y: float32[1, 1] = MatMul \"m\" (%x, %w) {}\n  output %y";
  const auto y = run(text, {Tensor::from<uint8_t>({1, k}, x)});
  EXPECT_EQ(y[0].to_doubles(), (std::vector<double>{255.0 * 127 * static_cast<double>(k)}));
}

TEST(QuantizedProduct, ZeroPointsPaddingAndScalesPerChannel) {
  // (x - 3) / 2 beside padding, which is the number 0 and not the integer 0.
  const auto y = run(R"(
  input %x: uint8[1, 1, 2] quantized uint8 scale [0.5] zero [3]
  const %w: float32[2, 1, 3] quantized int8 scale [1, 0.25] zero [0, 1] axis 0 = [1, 2, 3, 0.25, 0.5, 0.75]
  const %b: float32[2] = [10, 20]
  %y: float32[1, 2, 2] = Conv "c" (%x, %w, %b) {kernel=[3], pads_begin=[1], pads_end=[1]}
  output %y)",
                     {Tensor::from<uint8_t>({1, 1, 2}, {5, 0})});
  // x = 1, -1.5
  EXPECT_EQ(y[0].to_doubles(),
            (std::vector<double>{10 + 2 - 4.5, 10 + 1 - 3, 20 + 0.5 - 1.125, 20 + 0.25 - 0.75}));
}

TEST(QuantizedProduct, TheEpilogueRequantises) {
  const auto y = run(R"(
  input %x: uint8[1, 2] quantized uint8 scale [0.5] zero [0]
  input %r: uint8[1, 1] quantized uint8 scale [2] zero [1]
  const %w: float32[2, 1] quantized int8 scale [1] zero [0] = [3, -1]
  %y: uint8[1, 1] quantized uint8 scale [0.25] zero [128] = MatMul "m" (%x, %w, %r) {} epilogue 2 {Add(0,1) Clip[-32,31.75](2) RoundTo[0.25](3)}
  output %y)",
                     {Tensor::from<uint8_t>({1, 2}, {7, 2}), Tensor::from<uint8_t>({1, 1}, {0})});
  EXPECT_EQ(y[0].to_int64s(), (std::vector<int64_t>{128 + 30}));  // 10.5 - 1 - 2 = 7.5
}

TEST(QuantizedProduct, FloatsOfEightBits) {
  // 1.125 * 3 * 0.5 and 448 * -0.25 * 2, then what the epilogue rounds to a grid, saturated.
  const auto y = run(R"(
  input %x: float8e4m3fn[1, 2] quantized float8e4m3fn scale [0.5] zero [0]
  const %w: float32[2, 2] quantized float8e4m3fn scale [1, 2] zero [0, 0] axis 1 = [3, 6, 0, -0.5]
  %n: float32[1, 2] = MatMul "n" (%x, %w) {}
  %y: float8e4m3fn[1, 2] quantized float8e4m3fn scale [0.25] zero [0] = MatMul "m" (%x, %w) epilogue {RoundToE4M3[0.25](0)}
  output %n
  output %y)",
                     {Tensor::from_doubles(DType::Float8E4M3FN, {1, 2}, std::vector<double>{1.125, 448})});
  EXPECT_EQ(y[0].to_doubles(), (std::vector<double>{1.6875, 3.375 - 112}));
  // In steps of 0.25: 6.75 is the middle of 6.5 and 7, whose last bit is even; -434.5 is nearest to -448.
  EXPECT_EQ(y[1].to_doubles(), (std::vector<double>{7, -448}));
}

TEST(QuantizedProduct, OtherLayersComputeTheNumbers) {
  const auto y = run(R"(
  input %x: uint8[3] quantized uint8 scale [0.5] zero [2]
  %y: float32[3] = Pointwise "p" (%x) {code=Relu}
  output %y)",
                     {Tensor::from<uint8_t>({3}, {0, 2, 7})});
  EXPECT_EQ(y[0].to_doubles(), (std::vector<double>{0, 0, 2.5}));
}

}  // namespace
}  // namespace lathe
