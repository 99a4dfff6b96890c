// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/kernel.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe::cpu {
namespace {

TacticFamily view_family() {
  for (const TacticFamily& family : tactic_families())
    if (family.runner == "View") return family;
  return {};
}

struct Layer {
  Graph graph;
  GraphEditor editor{graph};

  // "linear", "channels_last", ... of the input for each supported view.
  std::vector<std::string> formats(Op op, std::vector<ValueId> inputs, size_t outputs = 1) {
    const ValueId y = append_node(editor, "layer", std::move(op), std::move(inputs), {}, {}, outputs)[0];
    const SymbolRanges ranges;
    std::vector<std::string> names;
    for (const Tactic& tactic : view_family().list({graph, graph.value(y).producer, ranges}, {})) {
      EXPECT_TRUE(tactic.is_view);
      if (tactic.support.ok)
        names.push_back(to_string(tactic.inputs[0].format) + ">" + to_string(tactic.outputs[0].format));
    }
    return names;
  }
  ValueId input(const Shape& shape) { return editor.add_input("x", DType::Float32, shape); }
  static bool has(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
};

using Names = std::vector<std::string>;

TEST(View, ReshapeInLinearFormat) {
  Layer layer;
  EXPECT_EQ(layer.formats(ReshapeOp{Shape{6, 4}}, {layer.input({2, 3, 4})}), Names{"linear>linear"});
}

TEST(View, ReshapeOfOnePixelImagesInAnyFormat) {
  Layer layer;
  const Names names = layer.formats(ReshapeOp{Shape{2, 32}}, {layer.input({2, 32, 1, 1})});
  EXPECT_TRUE(Layer::has(names, "blocked16>linear"));
  EXPECT_TRUE(Layer::has(names, "channels_last>linear"));
  Layer odd;  // the padding of the last block would become elements
  const Names odd_names = odd.formats(ReshapeOp{Shape{2, 20}}, {odd.input({2, 20, 1, 1})});
  EXPECT_FALSE(Layer::has(odd_names, "blocked16>linear"));
  EXPECT_TRUE(Layer::has(odd_names, "channels_last>linear"));
}

TEST(View, ConcatOfChannelsOfOneImage) {
  Layer layer;
  const Names names = layer.formats(Concat{1}, {layer.input({1, 16, 4, 4}), layer.input({1, 20, 4, 4})});
  EXPECT_EQ(names, (Names{"linear>linear", "blocked16>blocked16", "blocked8>blocked8"}));
  Layer odd;
  EXPECT_EQ(odd.formats(Concat{1}, {odd.input({1, 20, 4, 4}), odd.input({1, 16, 4, 4})}),
            Names{"linear>linear"});
  Layer batch;
  EXPECT_EQ(batch.formats(Concat{1}, {batch.input({2, 16, 4, 4}), batch.input({2, 16, 4, 4})}), Names{});
  Layer images;
  EXPECT_EQ(images.formats(Concat{0}, {images.input({1, 3, 4, 4}), images.input({2, 3, 4, 4})}).size(), 4u);
}

TEST(View, ConcatRefusesOneValueTwiceAndConstants) {
  Layer twice;
  const ValueId x = twice.input({1, 4});
  EXPECT_EQ(twice.formats(Concat{0}, {x, x}), Names{});
  Layer constant;
  const ValueId c = constant.editor.add_constant("c", Tensor::from<float>({1, 4}, {1, 2, 3, 4}));
  EXPECT_EQ(constant.formats(Concat{0}, {constant.input({1, 4}), c}), Names{});
}

TEST(View, SliceAndSplitOfTheOutermostAxis) {
  Layer slice;
  EXPECT_EQ(slice.formats(Slice{Shape{1}, Shape{3}, {0}, {1}}, {slice.input({4, 5})}),
            Names{"linear>linear"});
  Layer inner;
  EXPECT_EQ(inner.formats(Slice{Shape{1}, Shape{3}, {1}, {1}}, {inner.input({4, 5})}), Names{});
  Layer stepped;
  EXPECT_EQ(stepped.formats(Slice{Shape{0}, Shape{4}, {0}, {2}}, {stepped.input({4, 5})}), Names{});
  Layer torn;  // ends inside a block: what follows would be taken for padding
  EXPECT_EQ(torn.formats(Slice{Shape{0}, Shape{20}, {1}, {1}}, {torn.input({1, 32, 4, 4})}),
            Names{"linear>linear"});
  Layer split;
  EXPECT_EQ(split.formats(Split{1, {16, 16}}, {split.input({1, 32, 4, 4})}, 2).size(), 3u);
}

TEST(View, TransposeOfDimsOfOne) {
  Layer layer;
  EXPECT_EQ(layer.formats(Transpose{{0, 2, 1, 3}}, {layer.input({2, 1, 5, 6})}), Names{"linear>linear"});
  Layer real;
  EXPECT_EQ(real.formats(Transpose{{0, 2, 1, 3}}, {real.input({2, 3, 5, 6})}), Names{});
}

TEST(View, GatherOfOneIndex) {
  Layer layer;
  const ValueId first = layer.editor.add_constant("i", Tensor::scalar_i64(0));
  EXPECT_EQ(layer.formats(Gather{1}, {layer.input({1, 7, 8}), first}), Names{"linear>linear"});
  Layer inner;
  const ValueId index = inner.editor.add_constant("i", Tensor::scalar_i64(0));
  EXPECT_EQ(inner.formats(Gather{1}, {inner.input({2, 7, 8}), index}), Names{});
}

}  // namespace
}  // namespace lathe::cpu
