// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/grid_check.h"

namespace lathe::cpu {

TacticFamily byte_pool_tactics();

namespace {

const std::string kGrid = " quantized uint8 scale [0.03125] zero [77]";

std::string text(const std::string& x, const std::string& y, const std::string& y_grid,
                 const std::string& op) {
  return "graph \"g\" {\n input %x: float32[" + x + "]" + kGrid + "\n %y: float32[" + y + "]" + y_grid +
         " = " + op + "\n output %y\n}\n";
}

TEST(BytePool, MaximaStayBytes) {
  for (const auto& [x, y] : {std::pair("2, 19, 9, 9", "2, 19, 5, 5"), {"1, 300, 4, 7", "1, 300, 2, 4"}}) {
    const auto ran = check_grids(
        byte_pool_tactics(),
        text(x, y, kGrid,
             "Pool \"p\" (%x) {kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]}"));
    EXPECT_GE(count_with(ran, "uint8:channels_last -> uint8:channels_last"), 1);
  }
}

TEST(BytePool, AveragesWithAndWithoutPadding) {
  for (const char* fields : {"", ", count_include_pad=true"}) {
    const auto ran =
        check_grids(byte_pool_tactics(),
                    text("2, 19, 9, 8", "2, 19, 5, 4", " quantized uint8 scale [0.015625] zero [128]",
                         "Pool \"p\" (%x) {kind=Average, kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], "
                         "pads_end=[1, 1]" +
                             std::string(fields) + "} epilogue {Clip[-2,1.984375](0) RoundTo[0.015625](1)}"));
    EXPECT_GE(count_with(ran, "-> uint8"), 1);
    EXPECT_GE(count_with(ran, "-> float32"), 1);
  }
}

// Channels of one vector and of several, few, and with a rest; more pixels than bytes add up in 16 bits.
TEST(BytePool, MeansOfImages) {
  for (const auto& [x, y] : {std::pair("2, 19, 7, 7", "2, 19, 1, 1"),
                             {"1, 32, 20, 33", "1, 32, 1, 1"},
                             {"1, 150, 3, 5", "1, 150, 1, 1"},
                             {"1, 264, 17, 31", "1, 264, 1, 1"}}) {
    const auto ran =
        check_grids(byte_pool_tactics(), text(x, y, "", "Reduce \"r\" (%x) {kind=Mean, axes=[2, 3]}"));
    EXPECT_GE(count_with(ran, "-> float32"), 1);
  }
}

TEST(BytePool, SaysWhatIsInTheWay) {
  const auto reasons = grid_refusals(
      byte_pool_tactics(),
      text("1, 8, 4, 4", "1, 8, 2, 2", " quantized uint8 scale [0.5] zero [0]",
           "Pool \"p\" (%x) {kernel=[2, 2], strides=[2, 2]} epilogue {Clip[0,127.5](0) RoundTo[0.5](1)}"));
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("maxima of bytes have no epilogue"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cpu
