// SPDX-License-Identifier: Apache-2.0
#include "backend/device_model.h"

#include <gtest/gtest.h>

#include "backend/layer_work.h"
#include "ir/text.h"

namespace lathe {
namespace {

TEST(CpuFeatures, AreASet) {
  using enum CpuFeature;
  CpuFeatures features = {Avx2, Fp16};
  EXPECT_TRUE(features.has(Fp16));
  EXPECT_FALSE(features.has(Bf16));
  features.add(Bf16, false);
  EXPECT_FALSE(features.has(Bf16));
  features.add(Bf16);
  EXPECT_EQ(features, (CpuFeatures{Bf16, Fp16, Avx2}));
  EXPECT_EQ((features & CpuFeatures{Avx2, AmxFp16}), CpuFeatures{Avx2});
}

TEST(DeviceModel, ExpectsTheSlowerOfComputingAndMoving) {
  const DeviceModel model = {.memories = {{"L2", 1000, 50}, {"memory", 1'000'000, 10}},
                             .rates = {{DType::Float32, 100}, {DType::Float16, 400}},
                             .start_us = 1};
  EXPECT_DOUBLE_EQ(model.expected_us(1e6, DType::Float32, 500), 1 + 10);   // computes
  EXPECT_DOUBLE_EQ(model.expected_us(1e6, DType::Float16, 500), 1 + 2.5);  // faster in 16 bits
  EXPECT_DOUBLE_EQ(model.expected_us(1e6, DType::BFloat16, 500), 1 + 10);  // has no such instructions
  EXPECT_DOUBLE_EQ(model.expected_us(0, DType::Float32, 1000), 1 + 0.02);  // from the L2
  EXPECT_DOUBLE_EQ(model.expected_us(0, DType::Float32, 2000), 1 + 0.2);   // from memory
  EXPECT_DOUBLE_EQ(model.expected_us(0, DType::Float32, 5e6), 1 + 500);    // larger than all of it
}

TEST(LayerWork, CountsOperationsAndStoredBytesAtOpt) {
  const Graph graph = parse_graph(R"(graph "g" {
  input %x: float32[n, 64]
  const %w: float32[64, 32] = random 1
  %y: float32[n, 32] = MatMul "y" (%x, %w)
  output %y
})");
  const SymbolRanges ranges = {{"n", {1, 8, 16}}};
  const LayerQuery query{graph, graph.order().at(0), ranges};
  Tactic tactic = linear_tactic(query, "Product", "product");
  LayerWork work = work_of(query, tactic);
  EXPECT_EQ(work.ops, 2.0 * 8 * 64 * 32);
  EXPECT_EQ(work.bytes, 4.0 * (8 * 64 + 64 * 32 + 8 * 32));
  tactic.inputs[0].dtype = tactic.outputs[0].dtype = DType::BFloat16;
  tactic.inputs[1] = {};  // packed
  work = work_of(query, tactic);
  EXPECT_EQ(work.bytes, 2.0 * (8 * 64 + 8 * 32) + 4.0 * 64 * 32);
}

}  // namespace
}  // namespace lathe
