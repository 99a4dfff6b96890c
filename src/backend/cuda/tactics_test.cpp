// SPDX-License-Identifier: Apache-2.0
//
// Tactics are listed, kernels made and layers prepared for an H200 that is only described by a file.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/device/h200_check.h"
#include "backend/cuda/device/libraries.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/run/cuda_backend.h"
#include "base/error.h"
#include "base/file.h"
#include "ir/text.h"

namespace lathe::cuda {
namespace {

const char* const kConvBlock = R"(graph "g" {
  input %x: float32[1, 64, 56, 56]
  input %r: float32[1, 64, 56, 56]
  const %w: float32[64, 64, 3, 3] = random 1
  const %b: float32[64] = random 2
  %y: float32[1, 64, 56, 56] = Conv "conv + add + relu" (%x, %w, %b, %r)
      {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]} epilogue 2 {Add(0,1) Relu(2)} allow [float16]
  output %y
})";

std::vector<Tactic> tactics_of(const Graph& graph, const Device& device, std::string_view runner) {
  const SymbolRanges ranges;
  std::vector<Tactic> found;
  for (const TacticFamily& family : tactic_families()) {
    if (family.runner != runner) continue;
    for (Tactic& tactic : family.list({graph, graph.order().at(0), ranges}, device))
      found.push_back(std::move(tactic));
  }
  return found;
}

TEST(CudaTactics, CudnnOffersPrecompiledPlansForAResidualBlock) {
  const auto device = h200();
  ASSERT_NE(device->libraries->cudnn, nullptr);
  const Graph graph = parse_graph(kConvBlock);
  const auto tactics = tactics_of(graph, *device, "CudnnConvolution");
  const auto count = [&](DType type) {
    return std::count_if(tactics.begin(), tactics.end(), [&](const Tactic& t) {
      return t.support.ok && t.inputs[0] == TensorType{type, kChannelsLast} && t.params.get("fused") == 1 &&
             t.params.get("tf32") == 0;
    });
  };
  EXPECT_GE(count(DType::Float16), 10);
  EXPECT_GE(count(DType::Float16), count(DType::Float32));  // its own type is there to fall back on
  // The residual is read in the result's format; weights and bias are packed.
  EXPECT_EQ(tactics[0].inputs[3], tactics[0].outputs[0]);
  EXPECT_EQ(tactics[0].inputs[1], TensorType{});
}

TEST(CudaTactics, CudnnFindsItsConfigurationAgain) {
  const auto device = h200();
  const Graph graph = parse_graph(kConvBlock);
  const SymbolRanges ranges;
  const LayerQuery query{graph, graph.order().at(0), ranges};
  const auto tactics = tactics_of(graph, *device, "CudnnConvolution");
  MemoryBlobStore blobs;
  const auto kernel = make_kernel(query, tactics.at(0), *device, PackContext{blobs, "layer"});
  const SymbolValues symbols;
  ShapeContext context{.symbols = symbols};
  const Extents image = {1, 64, 56, 56};
  context.inputs = {image, {64, 64, 3, 3}, {64}, image};
  context.outputs = {image};
  EXPECT_NE(kernel->prepare(context), nullptr);
  EXPECT_EQ(blobs.find("layer/w").size(), 64u * 64 * 9 * 2);
}

TEST(CudaTactics, WithoutTf32NoTensorCoreConfigurationIsListedForFp32) {
  std::string text = kConvBlock;
  text.erase(text.find(" allow [float16]"), std::string_view(" allow [float16]").size());
  const Graph graph = parse_graph(text);
  const auto tf32 = [&](bool allowed) {
    const auto tactics = tactics_of(graph, *h200(allowed), "CudnnConvolution");
    EXPECT_GE(tactics.size(), 2u);
    EXPECT_TRUE(tactics.at(0).support.ok);
    return std::count_if(tactics.begin(), tactics.end(),
                         [](const Tactic& t) { return t.params.get("tf32") != 0; });
  };
  EXPECT_GE(tf32(true), 1);
  EXPECT_EQ(tf32(false), 0);
}

TEST(CudaTactics, CublasLtRefusesWhatItCannotConvolve) {
  const auto tactics = tactics_of(parse_graph(kConvBlock), *h200(), "CublasLt");
  ASSERT_EQ(tactics.size(), 1u);
  EXPECT_EQ(tactics[0].support.reason, "cuBLASLt computes convolutions with 1x1 windows and stride 1 only");
}

TEST(CudaTactics, CublasLtTakesBiasResidualAndRelu) {
  const Graph graph = parse_graph(R"(graph "g" {
  input %a: float32[batch, 16, 64]
  input %r: float32[batch, 16, 32]
  const %b: float32[64, 32] = random 1
  const %bias: float32[32] = random 2
  %y: float32[batch, 16, 32] = MatMul "fc" (%a, %b, %bias, %r) epilogue 3 {Add(0,1) Add(3,2) Relu(4)}
  output %y
})");
  const auto tactics = tactics_of(graph, *h200(), "CublasLt");
  ASSERT_GE(tactics.size(), 1u);
  const std::vector<TensorType> expected = {{DType::Float32, kLinear}, {}, {}, {DType::Float32, kLinear}};
  EXPECT_EQ(tactics[0].inputs, expected);
  EXPECT_EQ(tactics[0].in_place_inputs, std::vector<int>{3});
}

TEST(CudaBackend, SaysWhatItIsWithoutAGpu) {
  const auto backend = create_cuda_backend(h200());
  EXPECT_EQ(backend->target().backend, "cuda");
  EXPECT_EQ(backend->device_information().front().second, "NVIDIA H200");
  EXPECT_TRUE(backend->supports_compute_type(DType::Float16).ok);
  EXPECT_FALSE(backend->supports_compute_type(DType::Int8).ok);
  EXPECT_THROW(backend->create_stream(), Error);
}

TEST(CudaTactics, WhatIsCompiledAheadIsWhatTheTacticCompiles) {
  const auto device = h200();
  const Graph graph = parse_graph(kConvBlock);
  const SymbolRanges ranges;
  const LayerQuery query{graph, graph.order().at(0), ranges};
  int kernels = 0;
  for (const TacticFamily& family : tactic_families())
    for (const Tactic& tactic : family.list(query, *device)) {
      if (!tactic.support.ok || family.sources == nullptr) continue;
      MemoryBlobStore blobs;
      family.make(query, tactic, *device, PackContext{blobs, "layer"});
      for (const KernelSource& kernel : family.sources(query, tactic, *device)) {
        MemoryBlobStore alone;
        device->kernels->compiled(*device, alone, kernel.entry, kernel.source, {});
        const auto found = blobs.blocks();
        const auto compiled = alone.blocks().at(0);
        EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const auto& block) {
          return std::equal(block.begin(), block.end(), compiled.begin(), compiled.end());
        })) << tactic.name;
        ++kernels;
      }
      if (kernels > 3) return;  // each takes a third of a second
    }
  EXPECT_GT(kernels, 0);
}

TEST(CudaBackend, PreparesAheadAndStopsWhenAsked) {
  const auto backend = create_cuda_backend(h200());
  const Graph graph = parse_graph(kConvBlock);
  const SymbolRanges ranges;
  const LayerQuery query{graph, graph.order().at(0), ranges};
  std::vector<TimingTask> tasks;
  for (Tactic& tactic : backend->tactics(query)) tasks.push_back({query, std::move(tactic)});
  ASSERT_NE(backend->prepare_ahead(std::move(tasks)), nullptr);  // ends here, most of them not compiled
}

}  // namespace
}  // namespace lathe::cuda
