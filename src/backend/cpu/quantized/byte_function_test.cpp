// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>

#include "backend/cpu/check/grid_check.h"
#include "backend/cpu/device/machine.h"
#include "backend/cpu/quantized/look_up.h"

namespace lathe::cpu {

TacticFamily byte_function_tactics();

namespace {

const std::string kFrom = " quantized uint8 scale [0.03125] zero [77]",
                  kTo = " quantized uint8 scale [0.0625] zero [10]";

std::vector<std::string> check(const std::string& x, const std::string& more, const std::string& op) {
  return check_grids(byte_function_tactics(), "graph \"g\" {\n input %x: float32[" + x + "]" + kFrom + "\n" +
                                                  more + " %y: float32[" + x + "]" + kTo + " = " + op +
                                                  "\n output %y\n}\n");
}

// As ONNX Runtime and NNCF write x * sigmoid(x): the sigmoid is rounded, too.
TEST(ByteFunction, ActivationsBetweenRoundings) {
  const auto ran = check("2, 7, 9, 13", "",
                         "PointwiseChain \"p\" (%x) {program=1 {Sigmoid(0) RoundTo[0.00390625](1) Mul(0,2) "
                         "Clip[-0.625,15.3125](3) RoundTo[0.0625](4)}}");
  EXPECT_GE(count_with(ran, "uint8:linear -> uint8:linear"), 1);
  EXPECT_GE(count_with(ran, "uint8:channels_last -> uint8:channels_last"), 1);
}

TEST(ByteFunction, OneConstant) {
  const auto ran = check("130", " const %c: float32[1] = [1.5]\n",
                         "PointwiseChain \"p\" (%c, %x) {program=2 {Mul(1,1) Add(2,0) "
                         "Clip[-0.625,15.3125](3) RoundTo[0.0625](4)}}");
  EXPECT_GE(count_with(ran, "uint8"), 1);
}

TEST(ByteFunction, IsNotForOtherOperands) {
  EXPECT_TRUE(check("2, 8", " input %z: float32[2, 8]\n",
                    "PointwiseChain \"p\" (%x, %z) {program=2 {Add(0,1) Clip[-0.625,15.3125](2) "
                    "RoundTo[0.0625](3)}}")
                  .empty());
  EXPECT_TRUE(check("2, 2", " const %c: float32[2] = [1.5, 2]\n",
                    "PointwiseChain \"p\" (%x, %c) {program=2 {Add(0,1) Clip[-0.625,15.3125](2) "
                    "RoundTo[0.0625](3)}}")
                  .empty());
}

TEST(LookUp, EveryByteAndEveryRest) {
  if (!read_cpu_info().features.has(CpuFeature::Vbmi))
    GTEST_SKIP() << "no AVX512-VBMI here: its tables need it";
  std::vector<uint8_t> table(256), in(300);
  for (size_t q = 0; q < table.size(); ++q) table[q] = static_cast<uint8_t>(q * 167 + 13);
  std::iota(in.begin(), in.end(), uint8_t{0});
  for (const size_t count : {0, 1, 63, 64, 65, 256, 300}) {
    std::vector<uint8_t> expected(in.size(), 9), got = expected;
    look_up(in.data(), static_cast<int64_t>(count), table.data(), expected.data());
    look_up_avx512_vbmi(in.data(), static_cast<int64_t>(count), table.data(), got.data());
    EXPECT_EQ(got, expected) << count;
  }
}

}  // namespace
}  // namespace lathe::cpu
