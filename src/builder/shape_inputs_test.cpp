// SPDX-License-Identifier: Apache-2.0
#include "builder/shape_inputs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"

namespace lathe {
namespace {

constexpr const char* kTiles = R"(graph "tiles" {
  input %x: float32[2, 3]
  input %r: int64[2]
  input %ids: int64[2]
  %t: float32[t.dim0<=2147483647, t.dim1<=2147483647] = Tile "t" (%x, %r)
  %g: float32[2, t.dim1<=2147483647] = Gather "g" (%t, %ids) {axis=0}
  output %g
})";

TEST(ShapeInputs, AreThoseThatSizesFollowFrom) {
  EXPECT_EQ(find_shape_inputs(parse_graph(kTiles)), std::vector<std::string>{"r"});
}

TEST(ShapeInputs, TurnSizesIntoDims) {
  Graph graph = parse_graph(kTiles);
  mark_shape_input(graph, "r", {.min = {1, 1}, .opt = {2, 2}, .max = {3, 4}});
  const auto shape_of = [&](const char* name) {
    return to_string(graph.value(*graph.find_value(name)).shape);
  };
  EXPECT_EQ(shape_of("t"), "[2*r.0, 3*r.1]");
  EXPECT_EQ(shape_of("g"), "[2, 3*r.1]");
  EXPECT_TRUE(find_shape_inputs(graph).empty());
}

TEST(ShapeInputs, NegativeElementsAreConstants) {
  constexpr const char* kReshape = R"(graph "reshape" {
  input %x: float32[n, 6]
  input %s: int64[2]
  %y: float32[y.dim0<=6*n, y.dim1<=6*n] = Reshape "y" (%x, %s)
  output %y
})";
  Graph graph = parse_graph(kReshape);
  mark_shape_input(graph, "s", {.min = {3, -1}, .opt = {3, -1}, .max = {3, -1}});
  EXPECT_EQ(to_string(*graph.value(*graph.find_value("s")).contents), "[s.0, -1]");
  const auto error_of = [&](const ShapeRange& range) -> std::string {
    Graph other = parse_graph(kReshape);
    try {
      mark_shape_input(other, "s", range);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(
      error_of({.min = {3, -1}, .opt = {3, 2}, .max = {3, 2}}).find("must be the same in min, opt and max"),
      std::string::npos);
  EXPECT_NE(error_of({.min = {3}, .opt = {3}, .max = {3}}).find("has 2 elements, but was given 1"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe
