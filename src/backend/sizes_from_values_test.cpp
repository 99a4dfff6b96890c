// SPDX-License-Identifier: Apache-2.0
#include "backend/sizes_from_values.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"

namespace lathe {
namespace {

// The values found for the last node of the graph, whose inputs' values are in order.
SymbolValues find(const std::string& text, const std::vector<std::vector<double>>& inputs,
                  std::vector<std::string> wanted, SymbolValues symbols = {}) {
  const Graph graph = parse_graph(text);
  const auto read = [&](ValueId id) {
    for (size_t i = 0; i < graph.inputs().size(); ++i)
      if (graph.inputs()[i] == id)
        return Tensor::from_doubles(graph.value(id).dtype, {static_cast<int64_t>(inputs[i].size())},
                                    inputs[i]);
    return Tensor();
  };
  const bool all = find_sizes_from_values(graph, graph.node(graph.order().back()), wanted, read, symbols);
  if (!all) symbols.clear();
  return symbols;
}

constexpr const char* kReshape = R"(graph "reshape" {
  input %x: float32[n, 6]
  input %s: int64[2]
  %y: float32[y.dim0<=6*n, y.dim1<=6*n] = Reshape "y" (%x, %s)
  output %y
})";

TEST(SizesFromValues, FollowTheShapeRule) {
  EXPECT_EQ(find(kReshape, {{}, {4, -1}}, {"y.dim0", "y.dim1"}, {{"n", 2}}),
            (SymbolValues{{"n", 2}, {"y.dim0", 4}, {"y.dim1", 3}}));
}

TEST(SizesFromValues, AreCheckedAgainstTheModel) {
  const auto error_of = [&](std::vector<double> shape) -> std::string {
    try {
      find(kReshape, {{}, std::move(shape)}, {"y.dim0", "y.dim1"}, {{"n", 2}});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      return error.what();
    }
    return {};
  };
  EXPECT_NE(error_of({5, -1}).find("cannot reshape"), std::string::npos) << error_of({5, -1});
  EXPECT_NE(error_of({5, -1}).find("layer 'y'"), std::string::npos);
}

// How many elements are not zero is not for a shape rule to say.
TEST(SizesFromValues, AreNotThereWhereTheLayerFindsThem) {
  constexpr const char* kNonZero = R"(graph "nonzero" {
  input %x: float32[4]
  %y: int64[1, y.count<=4] = NonZero "y" (%x)
  output %y
})";
  EXPECT_EQ(find(kNonZero, {{1, 0, 1, 0}}, {"y.count"}), SymbolValues{});
}

}  // namespace
}  // namespace lathe
