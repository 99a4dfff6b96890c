// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/run/reformat.h"

#include <gtest/gtest.h>

#include "backend/cpu/check/tactic_check.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe::cpu {
namespace {

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

TEST(Reformat, BytesOfFewChannels) {
  for (const int64_t channels : {1, 2, 3, 4, 5})
    for (const int64_t width : {1, 7, 40, 224}) {
      Graph graph;
      GraphEditor editor(graph);
      const Shape shape = {2, channels, 5, width};
      const ValueId x = editor.add_input("x", DType::UInt8, shape);
      const NodeId node =
          editor.add_node("r", Reformat{}, {x}, {{"y", DType::UInt8, shape, {}, kChannelsLast}}, {});
      for (const int threads : {1, 3}) {
        const auto result = check_tactics(graph, node, {.runner = "Reformat", .threads = threads});
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
