// SPDX-License-Identifier: Apache-2.0
#include "ir/layer_types.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

Node made_of(const std::vector<std::string>& names, size_t outputs = 1) {
  Node node;
  for (const std::string& name : names) node.origins.push_back({name, "Conv"});
  node.outputs.assign(outputs, 0);
  return node;
}

TEST(LayerTypes, OfOneNode) {
  const LayerTypes types{{{"a", {.compute = DType::Float16, .is_required = true}}}};
  EXPECT_EQ(types.of(made_of({"a"})).compute, DType::Float16);
  EXPECT_TRUE(types.of(made_of({"a"})).is_required);
  EXPECT_FALSE(types.of(made_of({"b"})).any());
}

TEST(LayerTypes, Fp32CountsBeforeOtherTypes) {
  const LayerTypes types{{{"conv", {.compute = DType::Float16}}, {"relu", {.compute = DType::Float32}}}};
  EXPECT_EQ(types.of(made_of({"conv", "relu"})).compute, DType::Float32);
  EXPECT_EQ(types.of(made_of({"relu", "conv"})).compute, DType::Float32);
  EXPECT_EQ(types.of(made_of({"conv", "other"})).compute, DType::Float16);
}

// What an inner node gives does not exist in the layer.
TEST(LayerTypes, ResultsAreThoseOfTheLastNode) {
  const LayerTypes types{{{"conv", {.outputs = {DType::Float16}}}}};
  EXPECT_EQ(types.of(made_of({"add", "conv"})).output(0), DType::Float16);
  EXPECT_FALSE(types.of(made_of({"conv", "relu"})).output(0));
  const LayerTypes split{{{"split", {.outputs = {DType::Float32, DType::Float16}}}}};
  EXPECT_EQ(split.of(made_of({"split"}, 2)).output(1), DType::Float16);
  EXPECT_FALSE(split.of(made_of({"split"}, 3)).any());  // it was split further
}

}  // namespace
}  // namespace lathe
