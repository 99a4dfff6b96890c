// SPDX-License-Identifier: Apache-2.0
//
// Pointwise layers and moves whose operands or results are stored as bytes of a grid.
#include <gtest/gtest.h>

#include "backend/cpu/check/grid_check.h"

namespace lathe::cpu {

TacticFamily pointwise_tactics();
TacticFamily movement_tactics();
TacticFamily resize_tactics();
TacticFamily gather_tactics();
TacticFamily layer_norm_tactics();

namespace {

const std::string kA = " quantized uint8 scale [0.03125] zero [77]",
                  kB = " quantized uint8 scale [0.5] zero [0]";

std::string graph(const std::string& statements) {
  return "graph \"g\" {\n" + statements + "\n output %y\n}\n";
}

TEST(BytesOfGrids, PointwiseInAndOut) {
  const auto ran =
      check_grids(pointwise_tactics(),
                  graph(" input %x: float32[2, 7, 5, 3]" + kA + "\n input %z: float32[2, 7, 5, 3]" + kB +
                        "\n input %f: float32[2, 7, 1, 1]\n %y: float32[2, 7, 5, 3] quantized uint8 scale "
                        "[0.25] zero [40] = "
                        "PointwiseChain \"p\" (%x, %z, %f) {program=3 {Add(0,1) Mul(3,2) Clip[-10,53.75](4) "
                        "RoundTo[0.25](5)}}"));
  EXPECT_GE(count_with(ran, "uint8:channels_last uint8:channels_last float32:channels_last -> uint8"), 1);
  EXPECT_GE(count_with(ran, "float32:linear float32:linear float32:linear -> uint8"), 1);
  EXPECT_GE(count_with(ran, "uint8:linear uint8:linear float32:linear -> float32"), 1);
}

TEST(BytesOfGrids, BroadcastBytes) {
  const auto ran = check_grids(
      pointwise_tactics(), graph(" input %x: float32[2, 7, 5, 3]" + kA + "\n input %z: float32[2, 7, 1, 1]" +
                                 kB + "\n input %s: float32[1]" + kB +
                                 "\n %y: float32[2, 7, 5, 3] quantized uint8 scale [0.25] zero [40] = "
                                 "PointwiseChain \"p\" (%x, %z, %s) "
                                 "{program=3 {Mul(0,1) Add(3,2) Clip[-10,53.75](4) RoundTo[0.25](5)}}"));
  EXPECT_GE(count_with(ran, "-> uint8"), 3);
}

TEST(BytesOfGrids, MovesKeepBytes) {
  const auto concat =
      check_grids(movement_tactics(),
                  graph(" input %x: float32[2, 7, 5, 3]" + kA + "\n input %z: float32[2, 4, 5, 3]" + kA +
                        "\n %y: float32[2, 11, 5, 3]" + kA + " = Concat \"c\" (%x, %z) {axis=1}"));
  EXPECT_GE(count_with(concat, "uint8:channels_last uint8:channels_last -> uint8:channels_last"), 1);
  const auto transpose =
      check_grids(movement_tactics(), graph(" input %x: float32[2, 7, 5]" + kA + "\n %y: float32[2, 5, 7]" +
                                            kA + " = Transpose \"t\" (%x) {perm=[0, 2, 1]}"));
  EXPECT_GE(count_with(transpose, "uint8"), 1);
  const auto resize = check_grids(
      resize_tactics(), graph(" input %x: float32[1, 5, 3, 4]" + kA + "\n %y: float32[1, 5, 6, 8]" + kA +
                              " = Resize \"r\" (%x) {scales=[1, 1, 2, 2]}"));
  EXPECT_GE(count_with(resize, "uint8:channels_last -> uint8:channels_last"), 1);
}

TEST(BytesOfGrids, RowsAreNormedIntoBytes) {
  for (const char* const op : {"{axis=1}", "{axis=1, rms=true}"}) {
    const auto ran = check_grids(
        layer_norm_tactics(),
        graph(
            std::string(" input %x: float32[9, 70]\n const %s: float32[70] = random 3\n %y: float32[9, 70]") +
            " quantized uint8 scale [0.0625] zero [128] = LayerNorm \"n\" (%x, %s) " + op +
            " epilogue {Clip[-8,7.9375](0) RoundTo[0.0625](1)}"));
    EXPECT_GE(count_with(ran, "-> uint8"), 1);
  }
}

TEST(BytesOfGrids, JoinsOfTwoGridsDoNotMoveBytes) {
  const auto concat =
      check_grids(movement_tactics(), graph(" input %x: float32[2, 7]" + kA + "\n input %z: float32[2, 4]" +
                                            kB + "\n %y: float32[2, 11] = Concat \"c\" (%x, %z) {axis=1}"));
  EXPECT_TRUE(concat.empty());
}

}  // namespace
}  // namespace lathe::cpu
