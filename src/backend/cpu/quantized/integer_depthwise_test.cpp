// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/check/grid_case.h"
#include "backend/cpu/check/grid_check.h"

namespace lathe::cpu {

TacticFamily integer_depthwise_tactics();

namespace {

struct DepthwiseText {
  int64_t channels = 21;
  std::string x = "1, 21, 9, 11", w = "21, 1, 3, 3", y = "1, 21, 9, 11",
              fields = "kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1]", zero = "0", dtype = "int8";
  std::string epilogue = "{Relu(0) Clip[-8,7.9375](1) RoundTo[0.0625](2)}", operand;

  std::string text() const {
    return "graph \"g\" {\n input %x: float32[" + x + "] quantized uint8 scale [0.03125] zero [77]\n" +
           (operand == ", %f" ? " const %f: float32[" + std::to_string(channels) + ", 1, 1] = random 7\n"
                              : "") +
           (operand != ", %r" ? ""
                              : " input %r: float32[" + y + "] quantized uint8 scale [0.125] zero [9]\n") +
           " const %w: float32[" + w + "] quantized " + dtype + " scale " +
           repeated_list(channels, "0.015625") + " zero " + repeated_list(channels, zero) +
           " axis 0 = random 3\n const %b: float32[" + std::to_string(channels) +
           "] = random 5\n %y: float32[" + y +
           "] quantized uint8 scale [0.0625] zero [128] = Conv \"c\" (%x, %w, %b" + operand + ") {" + fields +
           ", groups=" + std::to_string(channels) + "} epilogue " + epilogue + "\n output %y\n}\n";
  }
};

void expect_both(const DepthwiseText& conv) {
  const auto ran = check_grids(integer_depthwise_tactics(), conv.text());
  EXPECT_GE(count_with(ran, "-> uint8"), 1);
  EXPECT_GE(count_with(ran, "-> float32"), 1);
}

TEST(IntegerDepthwise, Windows) {
  expect_both({});
  expect_both({.channels = 32,
               .x = "2, 32, 8, 8",
               .w = "32, 1, 5, 5",
               .y = "2, 32, 4, 4",
               .fields = "kernel=[5, 5], strides=[2, 2], pads_begin=[2, 2], pads_end=[2, 2]"});
  expect_both({.channels = 8,
               .x = "1, 8, 9, 9",
               .w = "8, 1, 2, 2",
               .y = "1, 8, 7, 7",
               .fields = "kernel=[2, 2], dilations=[2, 2]"});
  expect_both({.channels = 5,
               .x = "2, 5, 9",
               .w = "5, 1, 3",
               .y = "2, 5, 9",
               .fields = "kernel=[3], pads_begin=[1], pads_end=[1]"});
  expect_both({.channels = 4,
               .x = "1, 4, 3, 4, 5",
               .w = "4, 1, 3, 3, 3",
               .y = "1, 4, 3, 4, 5",
               .fields = "kernel=[3, 3, 3], pads_begin=[1, 1, 1], pads_end=[1, 1, 1]"});
}

// Lines of fewer and more windows than are computed at once; channels that end within a vector or a block,
// and more than one block.
TEST(IntegerDepthwise, WindowsThatShareColumns) {
  for (const int64_t channels : {37, 64, 150})
    for (const int64_t kernel : {3, 5, 7})
      for (const int64_t stride : {1, 2})
        for (const int64_t width : {2, 9, 27}) {
          const auto pads = std::to_string(kernel / 2), k = std::to_string(kernel);
          const auto columns = std::to_string((width - 1) / stride + 1), c = std::to_string(channels);
          expect_both({.channels = channels,
                       .x = "2, " + c + ", 5, " + std::to_string(width),
                       .w = c + ", 1, 2, " + k,
                       .y = "2, " + c + ", 4, " + columns,
                       .fields = "kernel=[2, " + k + "], strides=[1, " + std::to_string(stride) +
                                 "], pads_begin=[0, " + pads + "], pads_end=[0, " + pads + "]"});
        }
}

TEST(IntegerDepthwise, BlocksOfManyTaps) {
  expect_both(
      {.channels = 70,
       .x = "1, 70, 8, 9",
       .w = "70, 1, 5, 5",
       .y = "1, 70, 8, 9",
       .fields = "kernel=[5, 5], pads_begin=[2, 2], pads_end=[2, 2]",
       .epilogue =
           "{Clip[-4,3.96875](0) RoundTo[0.03125](1) Silu[1](2) Clip[-8,7.9375](3) RoundTo[0.0625](4)}"});
}

TEST(IntegerDepthwise, WeightsWithZeroPoints) {
  expect_both({.zero = "3", .dtype = "uint8"});
}

TEST(IntegerDepthwise, Epilogues) {
  DepthwiseText conv;
  for (const char* program : {"{HardSwish(0) Clip[-8,7.9375](1) RoundTo[0.0625](2)}",
                              "{Clip[-4,3.96875](0) RoundTo[0.03125](1) Silu[1](2) Clip[-8,7.9375](3) "
                              "RoundTo[0.0625](4)}",
                              "{Sigmoid(0) Mul(0,1) Clip[-8,7.9375](2) RoundTo[0.0625](3)}"}) {
    conv.epilogue = program;
    expect_both(conv);
  }
  conv.operand = ", %r";
  conv.epilogue = "2 {Add(0,1) Clip[-8,7.9375](2) RoundTo[0.0625](3)}";
  expect_both(conv);
  // A factor for each channel: in the kernel behind a function, and not before one.
  conv.operand = ", %f";
  for (const char* program : {"2 {Silu[1](0) Mul(2,1) Clip[-8,7.9375](3) RoundTo[0.0625](4)}",
                              "2 {Mul(0,1) Clip[-8,7.9375](2) RoundTo[0.0625](3)}",
                              "2 {Mul(0,1) Silu[1](2) Clip[-8,7.9375](3) RoundTo[0.0625](4)}"}) {
    conv.epilogue = program;
    expect_both(conv);
  }
}

}  // namespace
}  // namespace lathe::cpu
