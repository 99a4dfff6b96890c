// SPDX-License-Identifier: Apache-2.0
#include "problem.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace lathe::bench {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_problem(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Problem, ConvolutionWithDefaults) {
  const Problem p = parse_problem("conv:n2c64h56w56k32r3s3,f32,relu");
  const Node& node = p.graph.node(p.node);
  EXPECT_EQ(to_string(p.graph.value(node.outputs[0]).shape), "[2, 32, 56, 56]");
  EXPECT_EQ(node.epilogue.to_string(), "Relu(0)");
  EXPECT_DOUBLE_EQ(p.operations, 2.0 * 2 * 32 * 56 * 56 * 64 * 9);
  EXPECT_FALSE(p.bf16);
}

TEST(Problem, EpilogueOfSeveralWords) {
  const auto epilogue = [](const std::string& text) {
    const Problem p = parse_problem(text);
    return p.graph.node(p.node).epilogue.to_string();
  };
  EXPECT_EQ(epilogue("conv:c64h5k64,bf16,add,relu"), "Add(0,1) Relu(2)");
  EXPECT_EQ(epilogue("matmul:m1n2k3,gelu,add"), "GeluErf(0) Add(2,1)");
}

TEST(Problem, StridesGroupsAndOtherKinds) {
  const Problem depthwise = parse_problem("conv:c96h112k96r5u2g96,bf16,silu");
  EXPECT_DOUBLE_EQ(depthwise.operations, 2.0 * 96 * 56 * 56 * 25);
  EXPECT_TRUE(depthwise.bf16);
  EXPECT_DOUBLE_EQ(parse_problem("matmul:m128n768k3072,add").operations, 2.0 * 128 * 768 * 3072);
  EXPECT_DOUBLE_EQ(parse_problem("feed_forward:m128k768h3072").operations, 4.0 * 128 * 768 * 3072);
  const Problem deconv = parse_problem("deconv:n2c64h16w9k32r4u2p1,relu");
  EXPECT_DOUBLE_EQ(deconv.operations, 2.0 * 2 * 64 * 16 * 9 * 32 * 16);
  EXPECT_EQ(to_string(deconv.graph.value(deconv.graph.node(deconv.node).outputs[0]).shape),
            "[2, 32, 32, 18]");
  const Problem block = parse_problem("depthwise_block:n2c24h56m144k32r3u2,bf16,silu");
  EXPECT_DOUBLE_EQ(block.operations, 2.0 * 2 * 144 * (56 * 56 * 24 + 28 * 28 * (9 + 32)));
  EXPECT_EQ(to_string(block.graph.value(block.graph.node(block.node).outputs[0]).shape), "[2, 32, 28, 28]");
  EXPECT_DOUBLE_EQ(parse_problem("attention:b1h12s128d64").operations, 4.0 * 12 * 128 * 128 * 64);
}

TEST(Problem, LayersThatAreNoProducts) {
  const auto result = [](const std::string& text) {
    const Problem p = parse_problem(text);
    return to_string(p.graph.value(p.graph.node(p.node).outputs[0]).shape);
  };
  EXPECT_EQ(result("maxpool:n2c64h112r3u2,bf16"), "[2, 64, 56, 56]");
  EXPECT_EQ(result("avgpool:c8h7r7p0"), "[1, 8, 1, 1]");
  EXPECT_EQ(result("squeeze_excite:c96h56m4"), "[1, 96, 56, 56]");
  EXPECT_EQ(result("softmax:m3n5"), "[3, 5]");
  EXPECT_EQ(result("layer_norm:m3n5"), "[3, 5]");
  EXPECT_EQ(result("group_norm:n2c8h4g2,f16"), "[2, 8, 4, 4]");
  EXPECT_EQ(result("mean:c8h4w5"), "[1, 8, 1, 1]");
  EXPECT_EQ(result("resize:n2c3h4u3"), "[2, 3, 12, 12]");
  EXPECT_EQ(result("heads:b2s5h3d4"), "[2, 3, 5, 4]");
  EXPECT_EQ(result("pointwise:m3n5,add,gelu"), "[3, 5]");
  const std::string file = testing::TempDir() + "problem_layer.ir";
  std::ofstream(file)
      << "graph \"g\" {\n input %x: float32[3, 5]\n %y: float32[3, 5] = Softmax \"s\" (%x)\n output %y\n}\n";
  EXPECT_EQ(result("graph:" + file + ",f16"), "[3, 5]");
  EXPECT_NE(error_of("graph:" + file + ",relu").find("has its own epilogue"), std::string::npos);
}

// The tests run in the project's folder.
TEST(Problem, EveryListCanBeRead) {
  int problems = 0;
  for (const auto& list : std::filesystem::directory_iterator("bench/problems")) {
    std::ifstream file(list.path());
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line.substr(0, line.find('#')));
      for (std::string word; words >> word; ++problems) EXPECT_EQ(error_of(word), "") << list.path();
    }
  }
  EXPECT_GT(problems, 100);
}

TEST(Problem, ErrorsSayWhatAndWhere) {
  EXPECT_NE(error_of("gemm").find("expected a kind, such as conv:,"), std::string::npos);
  EXPECT_NE(error_of("depthwise_block:c0h9m16k0r3").find("name an activation"), std::string::npos);
  EXPECT_NE(error_of("pool:n1").find("unknown kind 'pool'"), std::string::npos);
  EXPECT_NE(error_of("conv:n1c3h2z").find("at 'z'"), std::string::npos);
  EXPECT_NE(error_of("conv:c64h56w56").find("'k' and its number are missing"), std::string::npos);
  EXPECT_NE(error_of("conv:c10h5k10r3g3").find("do not divide into 3 groups"), std::string::npos);
  EXPECT_NE(error_of("matmul:m1n2k3,tanh").find("unknown word 'tanh'"), std::string::npos);
}

}  // namespace
}  // namespace lathe::bench
