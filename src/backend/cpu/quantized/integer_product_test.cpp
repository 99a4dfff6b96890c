// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/check/grid_case.h"
#include "backend/cpu/check/grid_check.h"

namespace lathe::cpu {

TacticFamily integer_product_tactics();

namespace {

// Scales per output channel, all zeros the same.
std::string weight_grid(int64_t channels, int64_t axis, const std::string& zero = "0",
                        const std::string& dtype = "int8") {
  return " quantized " + dtype + " scale " + repeated_list(channels, "0.015625") + " zero " +
         repeated_list(channels, zero) + " axis " + std::to_string(axis);
}

struct ConvText {
  std::string x = "1, 7, 9, 8", w = "20, 7, 3, 3", y = "1, 20, 9, 8";
  int64_t channels = 20;
  std::string fields = "kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1]";
  std::string x_grid = "scale [0.03125] zero [77]";
  std::string zero = "0", dtype = "int8";
  std::string epilogue = " epilogue {Clip[-8,7.9375](0) RoundTo[0.0625](1)}";
  std::string y_grid = " quantized uint8 scale [0.0625] zero [128]";
  std::string operand, operand_type, constants;

  std::string text() const {
    return "graph \"g\" {\n input %x: float32[" + x + "] quantized uint8 " + x_grid + "\n" +
           (operand_type.empty() ? "" : " input %r: float32[" + operand_type + "\n") + constants +
           " const %w: float32[" + w + "]" + weight_grid(channels, 0, zero, dtype) +
           " = random 3\n const %b: float32[" + std::to_string(channels) + "] = random 5\n %y: float32[" + y +
           "]" + y_grid + " = Conv \"c\" (%x, %w, %b" + operand + ") {" + fields + "}" + epilogue +
           "\n output %y\n}\n";
  }
};

// Pairs, quads in software, tiles in software; bytes and floats out.
void expect_all(const ConvText& conv) {
  const auto ran = check_grids(integer_product_tactics(), conv.text());
  EXPECT_GE(count_with(ran, "int8_conv_avx2"), 2);
  EXPECT_EQ(count_with(ran, "int8_conv_quads"), 2);
  EXPECT_EQ(count_with(ran, "int8_conv_tiles"), 2);
}

TEST(IntegerProduct, Windows) {
  expect_all({});
  expect_all({.x = "2, 64, 5, 5",
              .w = "33, 64, 1, 1",
              .y = "2, 33, 5, 5",
              .channels = 33,
              .fields = "kernel=[1, 1]"});
  expect_all({.x = "1, 16, 9, 9",
              .w = "16, 16, 1, 1",
              .y = "1, 16, 5, 5",
              .channels = 16,
              .fields = "kernel=[1, 1], strides=[2, 2]"});
  expect_all({.x = "1, 3, 19, 17",
              .w = "5, 3, 7, 5",
              .y = "1, 5, 10, 9",
              .channels = 5,
              .fields = "kernel=[7, 5], strides=[2, 2], pads_begin=[3, 2], pads_end=[3, 2]"});
  expect_all({.x = "1, 4, 9, 9",
              .w = "8, 4, 3, 3",
              .y = "1, 8, 9, 9",
              .channels = 8,
              .fields = "kernel=[3, 3], dilations=[2, 2], pads_begin=[2, 2], pads_end=[2, 2]"});
}

TEST(IntegerProduct, OneAndThreeDims) {
  expect_all({.x = "2, 6, 11",
              .w = "9, 6, 4",
              .y = "2, 9, 11",
              .channels = 9,
              .fields = "kernel=[4], pads_begin=[1], pads_end=[2]"});
  expect_all({.x = "1, 4, 4, 5, 6",
              .w = "6, 4, 3, 2, 3",
              .y = "1, 6, 4, 4, 6",
              .channels = 6,
              .fields = "kernel=[3, 2, 3], pads_begin=[1, 0, 1], pads_end=[1, 0, 1]"});
}

TEST(IntegerProduct, Groups) {
  expect_all({.x = "1, 12, 6, 6",
              .w = "18, 4, 3, 3",
              .y = "1, 18, 6, 6",
              .channels = 18,
              .fields = "kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1], groups=3"});
}

// 65 rows more than one block, many panels, sums of more than 2^24.
TEST(IntegerProduct, LargeOnes) {
  expect_all({.x = "1, 512, 9, 9",
              .w = "70, 512, 3, 3",
              .y = "1, 70, 9, 9",
              .channels = 70,
              .x_grid = "scale [0.03125] zero [0]"});
}

TEST(IntegerProduct, ZeroPoints) {
  for (const char* zero : {"0", "128", "255"}) {
    ConvText conv;
    conv.x_grid = "scale [0.03125] zero [" + std::string(zero) + "]";
    expect_all(conv);
  }
  ConvText middle;
  middle.dtype = "uint8";
  middle.zero = "128";
  expect_all(middle);
  // Less its zero point such a weight has nine bits.
  ConvText other;
  other.dtype = "uint8";
  other.zero = "100";
  const auto ran = check_grids(integer_product_tactics(), other.text());
  for (const char* eight_bits : {"amx", "quads", "tiles"}) EXPECT_EQ(count_with(ran, eight_bits), 0);
  EXPECT_GE(count_with(ran, "int8_conv_avx2"), 4);
}

TEST(IntegerProduct, Epilogues) {
  ConvText conv;
  conv.operand = ", %r";
  conv.operand_type = conv.y + "] quantized uint8 scale [0.0625] zero [100]";
  const std::string end = " Clip[-8,7.9375](2) RoundTo[0.0625](3)}";
  for (const char* program : {
           "2 {Add(0,1) Clip[-8,7.9375](2) RoundTo[0.0625](3)}",
           "2 {Clip[-2,1.984375](0) RoundTo[0.015625](2) Add(3,1) Relu(4) Clip[-8,7.9375](5) "
           "RoundTo[0.0625](6)}",
           "2 {Mul(0,1) Clip[-8,7.9375](2) RoundTo[0.0625](3)}",  // through the evaluator
       }) {
    conv.epilogue = " epilogue " + std::string(program);
    expect_all(conv);
  }
  conv = {};
  for (const char* program : {"{Silu[1](0) Clip[-8,7.9375](1) RoundTo[0.0625](2)}",
                              "{HardSwish(0) Clip[-8,7.9375](1) RoundTo[0.0625](2)}",
                              "{GeluErf(0) Clip[-8,7.9375](1) RoundTo[0.0625](2)}",
                              "{Clip[-2,1.9375](0) RoundTo[0.0625](1) Sigmoid(2) Mul(2,3) Clip[-8,7.9375](4) "
                              "RoundTo[0.0625](5)}",
                              "{Tanh(0) Clip[-8,7.9375](1) RoundTo[0.0625](2)}"}) {
    conv.epilogue = " epilogue " + std::string(program);
    expect_all(conv);
  }
}

// 0.5 to 1.5 in turn.
std::string factors(int64_t channels) {
  std::string list = "[";
  for (int64_t c = 0; c < channels; ++c)
    list += (c ? ", " : "") + std::to_string(0.5 + 0.25 * static_cast<double>(c % 5));
  return list + "]";
}

// A constant for each channel behind the function, as grids with a scale for each channel leave it.
TEST(IntegerProduct, FactorsOfChannels) {
  ConvText conv, grouped{.x = "1, 12, 7, 7",
                         .w = "18, 4, 1, 1",
                         .y = "1, 18, 7, 7",
                         .channels = 18,
                         .fields = "kernel=[1, 1], groups=3"};
  for (ConvText* c : {&conv, &grouped}) {
    c->constants =
        " const %f: float32[" + std::to_string(c->channels) + ", 1, 1] = " + factors(c->channels) + "\n";
    c->operand = ", %f";
    c->x_grid = "scale [0.00390625] zero [77]";  // sums where functions are no straight lines
    for (const char* program :
         {"2 {Silu[1](0) Div(2,1) Clip[-8,7.9375](3) RoundTo[0.0625](4)}",
          "2 {GeluErf(0) Mul(1,2) Clip[-8,7.9375](3) RoundTo[0.0625](4)}",
          "2 {Div(0,1) Clip[-8,7.9375](2) RoundTo[0.0625](3)}",
          "2 {Mul(0,1) Silu[1](2) Clip[-8,7.9375](3) RoundTo[0.0625](4)}",  // the evaluator
          "2 {Relu(0) Mul(2,1) Clip[-8,7.9375](3) RoundTo[0.0625](4)}",     // the evaluator
          "2 {Div(1,0) Clip[-8,7.9375](2) RoundTo[0.0625](3)}"}) {          // the same
      c->epilogue = " epilogue " + std::string(program);
      expect_all(*c);
    }
  }
}

// What follows a rounding is a table: for whole rows, for some columns of few rows, behind an operand.
TEST(IntegerProduct, FunctionsOfRoundedSums) {
  ConvText conv,
      wide{.x = "1, 64, 1, 2",
           .w = "300, 64, 1, 1",
           .y = "1, 300, 1, 2",
           .channels = 300,
           .fields = "kernel=[1, 1]"},
      grouped{.x = "1, 12, 7, 7",
              .w = "120, 4, 1, 1",
              .y = "1, 120, 7, 7",
              .channels = 120,
              .fields = "kernel=[1, 1], groups=3"};
  for (ConvText* c : {&conv, &wide, &grouped})
    for (const char* program :
         {"{Clip[-2,1.984375](0) RoundTo[0.015625](1) Silu[1](2) Clip[-8,7.9375](3) RoundTo[0.0625](4)}",
          "{Clip[0,3.984375](0) RoundTo[0.015625](1) HardSigmoid[0.2,0.5](2) RoundTo[0.00390625](3) Mul(2,4) "
          "Clip[-8,7.9375](5) RoundTo[0.0625](6)}",
          "{Clip[-8,7.9375](0) RoundTo[0.0625](1) Elu[0.7](2) Clip[-8,7.9375](3) RoundTo[0.0625](4)}"}) {
      c->epilogue = " epilogue " + std::string(program);
      expect_all(*c);
    }
  conv.operand = ", %r";
  conv.operand_type = conv.y + "] quantized uint8 scale [0.0625] zero [100]";
  conv.epilogue =
      " epilogue 2 {Add(0,1) Clip[-8,7.9375](2) RoundTo[0.0625](3) Tanh(4) Clip[-8,7.9375](5) "
      "RoundTo[0.0625](6)}";
  expect_all(conv);
}

TEST(IntegerProduct, Matrices) {
  const auto text = [](bool transposed, const std::string& x, const std::string& y) {
    return "graph \"g\" {\n input %x: float32[" + x + "] quantized uint8 scale [0.03125] zero [3]\n" +
           " const %w: float32" +
           (transposed ? "[37, 50]" + weight_grid(37, 0) : "[50, 37]" + weight_grid(37, 1)) +
           " = random 3\n const %b: float32[37] = random 4\n" + " %y: float32[" + y +
           "] quantized uint8 scale [0.0625] zero [128] = MatMul \"m\" (%x, %w, %b) {" +
           (transposed ? "transpose_b=true" : "") +
           "} epilogue 2 {Add(0,1) Clip[-8,7.9375](2) RoundTo[0.0625](3)}\n output %y\n}\n";
  };
  for (const bool transposed : {false, true})
    for (const auto& [x, y] : {std::pair("1, 50", "1, 37"), {"70, 50", "70, 37"}, {"2, 9, 50", "2, 9, 37"}}) {
      const auto ran = check_grids(integer_product_tactics(), text(transposed, x, y));
      EXPECT_GE(count_with(ran, "int8_matmul_avx2"), 2);
      EXPECT_EQ(count_with(ran, "int8_matmul_quads"), 2);
      EXPECT_EQ(count_with(ran, "int8_matmul_tiles"), 2);
    }
}

TEST(IntegerProduct, SaysWhatIsInTheWay) {
  const auto reason = [](const std::string& text) {
    const auto all = grid_refusals(integer_product_tactics(), text);
    return all.empty() ? std::string() : all[0].substr(all[0].find(": ") + 2);
  };
  ConvText depthwise{.x = "1, 8, 4, 4",
                     .w = "8, 1, 1, 1",
                     .y = "1, 8, 4, 4",
                     .channels = 8,
                     .fields = "kernel=[1, 1], groups=8"};
  EXPECT_EQ(reason(depthwise.text()), "a depthwise convolution");
  const std::string x = "graph \"g\" {\n input %x: float32[2, 70000] quantized uint8 scale [1] zero [0]\n";
  EXPECT_EQ(reason(x + " const %w: float32[70000, 1] quantized int8 scale [1] zero [0] = splat 1\n"
                       " %y: float32[2, 1] = MatMul \"m\" (%x, %w) {}\n output %y\n}"),
            "a sum of 70000 products may not fit 32 bits");
  EXPECT_EQ(reason(x + " const %w: float32[70000, 1] = splat 1\n"
                       " %y: float32[2, 1] = MatMul \"m\" (%x, %w) {}\n output %y\n}"),
            "the weights lie on no grid");
}

}  // namespace
}  // namespace lathe::cpu
