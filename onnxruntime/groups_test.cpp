// SPDX-License-Identifier: Apache-2.0
#include "groups.h"

#include <gtest/gtest.h>

namespace lathe::onnxruntime_ep {
namespace {

using Groups = std::vector<std::vector<size_t>>;

// a -> b -> c and a -> d -> c: a diamond, then e beside it and nothing else.
const std::vector<NodeEdges> kDiamond = {
    {{"x"}, {"a"}}, {{"a"}, {"b"}}, {{"a"}, {"d"}}, {{"b", "d"}, {"c"}}, {{"z"}, {"e"}}};

TEST(Groups, AllSupportedNodesAreOne) {
  EXPECT_EQ(group_nodes(kDiamond, {true, true, true, true, true}), (Groups{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(group_nodes({}, {}), Groups{});
  EXPECT_EQ(group_nodes(kDiamond, {false, false, false, false, false}), Groups{});
}

TEST(Groups, NoPathLeavesAGroupAndComesBack) {
  // a and c may not be one: b lies between them. d, beside b, goes with a.
  EXPECT_EQ(group_nodes(kDiamond, {true, false, true, true, true}), (Groups{{0, 2, 4}, {3}}));
}

TEST(Groups, WhatIsNotSupportedAtTheBeginningOrTheEndSplitsNothing) {
  EXPECT_EQ(group_nodes(kDiamond, {false, true, true, true, true}), (Groups{{1, 2, 3, 4}}));
  EXPECT_EQ(group_nodes(kDiamond, {true, true, true, false, true}), (Groups{{0, 1, 2, 4}}));
}

TEST(Groups, AlternatingNodesAreOneGroupEach) {
  const std::vector<NodeEdges> chain = {
      {{"0"}, {"1"}}, {{"1"}, {"2"}}, {{"2"}, {"3"}}, {{"3"}, {"4"}}, {{"4"}, {"5"}}};
  EXPECT_EQ(group_nodes(chain, {true, false, true, false, true}), (Groups{{0}, {2}, {4}}));
  EXPECT_EQ(group_nodes(chain, {true, false, false, true, true}), (Groups{{0}, {3, 4}}));
}

}  // namespace
}  // namespace lathe::onnxruntime_ep
