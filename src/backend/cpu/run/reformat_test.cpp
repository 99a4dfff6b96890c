// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/run/reformat.h"

#include <gtest/gtest.h>

#include "backend/cpu/check/tactic_check.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe::cpu {
namespace {

Tensor counting(DType dtype, const Extents& extents) {
  std::vector<double> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 100);
  return Tensor::from_doubles(dtype, extents, values);
}

TEST(Reformat, StoredFormatsReadBack) {
  for (const DType dtype : {DType::Float32, DType::Int8, DType::Int64, DType::BFloat16})
    for (const Format format : {kLinear, kChannelsLast, kBlocked8, kBlocked16})
      for (const Extents& extents :
           {Extents{2, 19, 3, 4}, Extents{1, 16, 5}, Extents{7}, Extents{}, Extents{0, 3, 2}}) {
        const Tensor tensor = counting(dtype, extents);
        if (extents.size() < 2 && format.kind == Format::Kind::ChannelBlocked) continue;  // no channels
        std::vector<std::byte> stored(static_cast<size_t>(storage_bytes(dtype, extents, format)) + 64);
        from_linear(tensor, format, stored.data());
        EXPECT_EQ(to_linear({dtype, format}, extents, stored.data()).to_doubles(), tensor.to_doubles());
      }
}

TEST(Reformat, BlockedFormatPutsChannelsTogether) {
  const Tensor tensor = counting(DType::Float32, {1, 3, 2});  // 0 1 | 2 3 | 4 5
  std::vector<float> stored(16, -1.0f);
  from_linear(tensor, kBlocked8, stored.data());
  EXPECT_EQ(stored, (std::vector<float>{0, 2, 4, 0, 0, 0, 0, 0, 1, 3, 5, 0, 0, 0, 0, 0}));
}

TEST(Reformat, EveryPairOfFloatTypesAndFormats) {
  const std::vector<Format> formats = {kLinear, kChannelsLast, kBlocked8, kBlocked16};
  for (const DType from : {DType::Float32, DType::BFloat16, DType::Float16})
    for (const DType to : {DType::Float32, DType::BFloat16, DType::Float16})
      for (const Format in : formats)
        for (const Format out : formats)
          for (const Shape& shape : {Shape{2, 19, 9, 8}, Shape{1, 32, 33, 20}}) {
            Graph graph;
            GraphEditor editor(graph);
            const ValueId x = editor.add_input("x", from, shape);
            editor.set_type(x, from, in);
            const NodeId node = editor.add_node("r", Reformat{}, {x}, {{"y", to, shape, {}, out}}, {});
            for (const int threads : {1, 3}) {
              const auto result = check_tactics(
                  graph, node,
                  {.runner = "Reformat", .threads = threads, .tolerance = 1e-3, .bf16_tolerance = 6e-3});
              for (const std::string& failure : result.failures) ADD_FAILURE() << failure;
              EXPECT_EQ(result.ran.size(), 1u);
            }
          }
}

TEST(Reformat, RefusesIntegerConversions) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Int32, {2, 3});
  const NodeId node = editor.add_node("r", Reformat{}, {x}, {{"y", DType::Float32, {2, 3}}}, {});
  const LayerQuery query{graph, node, {}};
  bool refused = false;
  for (const TacticFamily& family : tactic_families())
    if (family.runner == "Reformat")
      for (const Tactic& tactic : family.list(query, {}))
        refused = !tactic.support.ok && tactic.support.reason.find("int32 to float32") != std::string::npos;
  EXPECT_TRUE(refused);
}

TEST(Cast, FloatTypesInAnyFormat) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, {2, 20, 33, 31});
  const ValueId y = append_node(editor, "c", Cast{DType::BFloat16}, {x}, {})[0];
  const auto result =
      check_tactics(graph, graph.value(y).producer, {.runner = "Reformat", .bf16_tolerance = 1e-6});
  for (const std::string& failure : result.failures) ADD_FAILURE() << failure;
  EXPECT_EQ(result.ran.size(), 4u);
}

}  // namespace
}  // namespace lathe::cpu
