// SPDX-License-Identifier: Apache-2.0
#include "backend/open_size.h"

#include <gtest/gtest.h>

#include "ir/edit.h"
#include "ir/symbol_extents.h"

namespace lathe {
namespace {

constexpr int64_t kNoBound = (int64_t{1} << 31) - 1;

TEST(OpenSize, IsWhatARunFindsAndLittleBounds) {
  const Dim n = Dim::symbol("n"), found = Dim::data_dependent("found", n);
  const auto is_open = [](const Shape& shape, int64_t most) {
    return has_open_size({.dtype = DType::Float32, .shape = shape}, {{"n", {1, 1, most}}});
  };
  EXPECT_FALSE(is_open({n}, 1 << 30));  // large, and known before
  EXPECT_FALSE(is_open({found}, 16 << 20));
  EXPECT_TRUE(is_open({found}, (16 << 20) + 1));
  EXPECT_TRUE(is_open({found * found * found, 4}, kNoBound));  // above 64 bits
}

TEST(OpenSize, AssumedExtentsFitIntoMemory) {
  Graph graph;
  GraphEditor editor{graph};
  std::vector<ValueId> values;
  const auto add = [&](Shape shape) {
    values.push_back(editor.add_input("v" + std::to_string(values.size()), DType::Float32, std::move(shape)));
  };
  const Dim a = Dim::data_dependent("a", kNoBound), b = Dim::data_dependent("b", kNoBound),
            c = Dim::data_dependent("c", 7);
  add({a, a, b, c});
  add({c});
  add({Dim::data_dependent("few", 7)});
  SymbolValues symbols;
  assume_open_sizes(graph, values, {}, symbols);
  EXPECT_EQ(symbols, (SymbolValues{{"a", 128}, {"b", 128}, {"c", 7}}));  // 128^3 * 7 * 4 bytes are 56 MiB
}

}  // namespace
}  // namespace lathe
