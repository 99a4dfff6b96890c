// SPDX-License-Identifier: Apache-2.0
#include "arguments/suggest.h"

#include <gtest/gtest.h>

namespace lathe::cli {
namespace {

const std::vector<std::string_view> kFlags = {"--onnx",        "--saveEngine",   "--loadEngine",
                                              "--exportTimes", "--exportOutput", "--exportProfile",
                                              "--fp16",        "--bf16"};

TEST(Suggest, FindsMistypedFlags) {
  EXPECT_EQ(suggestion("--onx", kFlags, "=a.onnx"), "did you mean --onnx=a.onnx?");
  EXPECT_EQ(suggestion("--saveEngne", kFlags), "did you mean --saveEngine?");
  EXPECT_EQ(suggestion("--saveegnine", kFlags), "did you mean --saveEngine?");  // neighbours swapped, case
  EXPECT_EQ(suggestion("-onnx", kFlags), "did you mean --onnx?");
  EXPECT_EQ(suggestion("--f16", kFlags), "did you mean --fp16 or --bf16?");
}

TEST(Suggest, TakesTheBeginningOfAWord) {
  EXPECT_EQ(suggestion("--export", kFlags), "did you mean --exportTimes, --exportOutput or --exportProfile?");
}

TEST(Suggest, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(suggestion("--quantize", kFlags), "");
  EXPECT_EQ(suggestion("--", kFlags), "");
  EXPECT_EQ(suggestion("--x", kFlags), "");
  EXPECT_EQ(suggestion("--" + std::string(100000, 'o'), kFlags), "");
}

}  // namespace
}  // namespace lathe::cli
