// SPDX-License-Identifier: Apache-2.0
//
// Bodies on a GPU that is only described: their tactics are chosen, kernels compiled and layers prepared.
// What they compute is compared on a GPU by ONNX's node tests (make test-gpu).
#include <gtest/gtest.h>

#include "backend/cuda/device/h200_check.h"
#include "backend/cuda/device/libraries.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/run/body_kernels.h"
#include "backend/cuda/run/cuda_backend.h"
#include "backend/no_elements.h"
#include "base/error.h"
#include "base/file.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "ops/build.h"

namespace lathe::cuda {
TacticFamily control_flow_tactics();
namespace {

// A loop whose body convolves, which kernels do with channels last, and changes a shape.
Body convolving() {
  return Body(parse_graph(R"(graph "body" {
  input %i: int64[]
  input %go: bool[]
  input %x: float32[1, 16, 12, width]
  const %w: float32[16, 16, 3, 3] = random 1
  %y: float32[1, 16, 12, width] = Conv "conv" (%x, %w)
      {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]}
  %t: float32[1, 16, 12, width] = Pointwise "tanh" (%y) {code=Tanh}
  %s: float32[16, 12*width] = Reshape "flat" (%t) {shape=[16, 12*width]}
  output %go
  output %t
  output %s
})"));
}

Graph looped(const Body& body) {
  Graph graph = parse_graph(R"(graph "g" {
  input %n: int64[]
  input %x: float32[1, 16, 12, width]
  output %x
})");
  GraphEditor editor(graph);
  const std::vector<ValueId> results =
      append_node(editor, "loop", Loop{.body = body, .carried = 1},
                  {graph.inputs()[0], kNoValue, graph.inputs()[1]}, {}, {"last", "all"}, 2);
  editor.replace_output(0, results[0]);
  editor.mark_output(results[1]);
  return graph;
}

TEST(CudaControlFlow, EveryNodeOfABodyHasAKernel) {
  const auto device = h200();
  const Graph graph = looped(convolving());
  const SymbolRanges ranges = {{"width", {1, 20, 64}}};
  const LayerQuery query{graph, graph.order().back(), ranges};
  const std::vector<Tactic> tactics = control_flow_tactics().list(query, *device);
  ASSERT_EQ(tactics.size(), 1u);
  EXPECT_TRUE(tactics[0].support.ok) << tactics[0].support.reason;
}

TEST(CudaControlFlow, KernelsAreCompiledAndKept) {
  const auto device = h200();
  if (device->libraries->nvrtc == nullptr) GTEST_SKIP() << "NVRTC is not there";
  const Body body = convolving();
  const SymbolRanges ranges = {{"width", {1, 20, 64}}};
  MemoryBlobStore blobs;
  const BodyKernels kernels(body, {}, ranges, *device, {blobs, "loop"});
  const auto layer_of = [&](std::string_view name) -> const BodyKernels::Layer& {
    for (const NodeId id : body.graph().order())
      if (body.graph().node(id).name == name) return kernels.layer(id);
    return kernels.layer(body.graph().order()[0]);
  };
  const BodyKernels::Layer& conv = layer_of("conv");
  ASSERT_NE(conv.kernel, nullptr);
  EXPECT_FALSE(conv.tactic.inputs[0].format.is_linear());
  // What it reads and gives is arranged by kernels of its own.
  ASSERT_NE(conv.arrange.at(0).kernel, nullptr);
  ASSERT_NE(conv.restore.at(0).kernel, nullptr);
  EXPECT_NE(layer_of("tanh").kernel, nullptr);
  EXPECT_EQ(layer_of("flat").kernel, nullptr);  // shares its operand's bytes
  EXPECT_FALSE(blobs.blocks().empty());
}

// The first tactic whose types are those of the graph's values.
Tactic fitting(const LayerQuery& query, const Device& device) {
  const auto fits = [&](const std::vector<ValueId>& values, const std::vector<TensorType>& types) {
    for (size_t i = 0; i < values.size(); ++i) {
      const Value& value = query.graph.value(values[i]);
      if (types[i].dtype != DType::Undefined && types[i] != TensorType{value.dtype, value.format})
        return false;
    }
    return true;
  };
  for (const TacticFamily& family : tactic_families())
    if (may_list(family.runner, query))
      for (const Tactic& tactic : family.list(query, device))
        if (tactic.support.ok && !tactic.is_view && fits(query.layer().inputs, tactic.inputs) &&
            fits(query.layer().outputs, tactic.outputs))
          return tactic;
  ADD_FAILURE() << "no tactic for " << query.layer().name;
  return {};
}

// A body as the tuner leaves it: values in the formats that the chosen tactics have.
TEST(CudaControlFlow, ChosenTacticsAreTaken) {
  const auto device = h200();
  if (device->libraries->nvrtc == nullptr) GTEST_SKIP() << "NVRTC is not there";
  const Body body(parse_graph(R"(graph "body" {
  input %go: bool[]
  input %x: float32[1, 16, 12, width]
  const %w: float32[16, 16, 3, 3] = random 1
  %a: float32[1, 16, 12, width]:channels_last = Reformat "arrange" (%x)
  %b: float32[1, 16, 12, width]:channels_last = Conv "conv" (%a, %w)
      {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]}
  %y: float32[1, 16, 12, width] = Reformat "restore" (%b)
  output %go
  output %y
})"));
  const SymbolRanges ranges = {{"width", {1, 20, 64}}};
  std::vector<Tactic> chosen;
  for (const NodeId id : body.graph().order()) chosen.push_back(fitting({body.graph(), id, ranges}, *device));
  MemoryBlobStore blobs;
  const BodyKernels kernels(body, chosen, ranges, *device, {blobs, "loop"});
  for (size_t i = 0; i < chosen.size(); ++i) {
    const BodyKernels::Layer& layer = kernels.layer(body.graph().order()[i]);
    EXPECT_EQ(layer.tactic.name, chosen[i].name);
    ASSERT_NE(layer.kernel, nullptr) << chosen[i].name;
    EXPECT_FALSE(layer.is_linear) << chosen[i].name;  // so the host never evaluates it
    for (const BodyReformat& arrange : layer.arrange) EXPECT_EQ(arrange.kernel, nullptr);
    for (const BodyReformat& restore : layer.restore) EXPECT_EQ(restore.kernel, nullptr);
  }
  // What an engine file says is checked.
  chosen[1].inputs[0].format = kLinear;
  const std::vector<Tactic> forged = chosen;
  EXPECT_THROW(BodyKernels(body, forged, ranges, *device, {blobs, "forged"}), Error);
}

// The number is no part of what the layer is prepared for: its kernel finds it.
TEST(CudaControlFlow, WhatABodyCountsHasAKernel) {
  const auto device = h200();
  if (device->libraries->nvrtc == nullptr) GTEST_SKIP() << "NVRTC is not there";
  Graph graph = parse_graph("graph \"body\" { input %go: bool[] input %x: float32[rows] output %go }");
  GraphEditor editor(graph);
  editor.mark_output(append_node(editor, "which", NonZero{}, {graph.inputs()[1]}, {})[0]);
  const NodeId which = graph.order().back();
  const SymbolRanges ranges = {{"rows", {1, 20, 64}}};
  MemoryBlobStore blobs;
  const BodyKernels kernels(Body(std::move(graph)), {}, ranges, *device, {blobs, "loop"});
  const BodyKernels::Layer& layer = kernels.layer(which);
  ASSERT_NE(layer.kernel, nullptr);
  EXPECT_EQ(layer.symbols, std::vector<std::string>{"rows"});
  EXPECT_EQ(layer.found.size(), 1u);
}

TEST(CudaControlFlow, NamesWhatHasNoKernel) {
  const Body body(parse_graph(R"(graph "body" {
  input %i: int64[]
  input %go: bool[]
  input %m: float32[65, 65]
  %y: float32[] = Det "det" (%m)
  output %go
  output %y
})"));
  Graph graph = parse_graph("graph \"g\" { input %n: int64[] input %m: float32[65, 65] output %n }");
  GraphEditor editor(graph);
  const std::vector<ValueId> results = append_node(
      editor, "loop", Loop{.body = body}, {graph.inputs()[0], kNoValue, graph.inputs()[1]}, {}, {"all"});
  editor.replace_output(0, results[0]);
  const SymbolRanges ranges;
  const auto tactics = control_flow_tactics().list({graph, graph.order().back(), ranges}, *h200());
  ASSERT_EQ(tactics.size(), 1u);
  EXPECT_NE(tactics[0].support.reason.find("'det' (Det) of its body has no kernel"), std::string::npos)
      << tactics[0].support.reason;
}

}  // namespace
}  // namespace lathe::cuda
