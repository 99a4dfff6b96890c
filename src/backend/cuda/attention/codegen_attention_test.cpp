// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily attention_family();
GeneratedFamily split_attention_family();
namespace {

LayerCase attention(const Extents& q, const Extents& k, const Extents& v, const Attention& op) {
  LayerCase layer{.op = op, .inputs = {{.extents = q}, {.extents = k}, {.extents = v}}};
  layer.allowed_types = {DType::Float16, DType::BFloat16};
  layer.tolerance = 1e-5;
  layer.rounding = 3;  // the probabilities are rounded too
  return layer;
}

TEST(CudaAttention, HeadSizesLayoutsAndMasks) {
  std::vector<LayerCase> cases;
  for (const int64_t d : {16, 40, 160})
    cases.push_back(attention({1, 2, 37, d}, {1, 2, 70, d}, {1, 2, 70, d}, {.scale = 0.2f}));
  cases.push_back(attention({1, 2, 9, 12}, {1, 2, 9, 12}, {1, 2, 9, 20}, {.scale = 0.5f}));
  LayerCase bshd = attention({2, 40, 3, 32}, {2, 40, 3, 32}, {2, 40, 3, 48},
                             {.scale = 0.3f, .causal = true, .layout = AttentionLayout::BSHD});
  bshd.dynamic_batch = true;
  cases.push_back(bshd);
  LayerCase masked = attention({2, 2, 20, 32}, {2, 2, 33, 32}, {2, 2, 33, 32}, {.scale = 0.3f});
  masked.inputs.push_back({.dtype = DType::Bool, .extents = {2, 1, 1, 33}, .low = 0, .high = 2});
  cases.push_back(masked);
  masked.inputs.back() = {.extents = {2, 20, 33}, .low = -4, .high = 1};
  cases.push_back(masked);
  masked.inputs.back() = {.dtype = DType::Bool, .extents = {1, 1}, .low = 0, .high = 0.5};  // nothing is kept
  cases.push_back(masked);
  for (const int64_t keys : {34, 64}) {  // even: the masks of two keys are read at once
    LayerCase pairs = attention({2, 2, 20, 32}, {2, 2, keys, 32}, {2, 2, keys, 32}, {.scale = 0.3f});
    pairs.inputs.push_back({.extents = {2, 1, 20, keys}, .low = -4, .high = 1});
    cases.push_back(pairs);
  }
  cases.push_back(attention({2, 4, 9, 32}, {2, 2, 20, 32}, {2, 2, 20, 32}, {.scale = 0.3f}));  // shared heads
  cases.push_back(attention({2, 9, 6, 32}, {2, 20, 2, 32}, {2, 20, 2, 32},
                            {.scale = 0.3f, .layout = AttentionLayout::BSHD}));
  EXPECT_EQ(check_generated(attention_family(), cases), 11 * 7 + 3);
}

// Heads of 64 with up to 256 keys: all scores of a row in registers, on Hopper.
TEST(CudaAttention, WholeRows) {
  std::vector<LayerCase> cases;
  cases.push_back(attention({1, 2, 70, 64}, {1, 2, 128, 64}, {1, 2, 128, 64}, {.scale = 0.125f}));
  cases.push_back(attention({1, 2, 197, 64}, {1, 2, 197, 64}, {1, 2, 197, 64}, {.scale = 0.125f}));
  LayerCase bshd = attention({2, 40, 3, 64}, {2, 40, 3, 64}, {2, 40, 3, 64},
                             {.scale = 0.3f, .causal = true, .layout = AttentionLayout::BSHD});
  bshd.dynamic_batch = true;
  cases.push_back(bshd);
  LayerCase masked = attention({2, 33, 2, 64}, {2, 33, 2, 64}, {2, 33, 2, 64},
                               {.scale = 0.3f, .layout = AttentionLayout::BSHD});
  masked.inputs.push_back({.extents = {2, 1, 1, 33}, .low = -4, .high = 1});
  cases.push_back(masked);
  masked.inputs.back() = {.dtype = DType::Bool, .extents = {2, 1, 33, 33}, .low = 0, .high = 2};
  cases.push_back(masked);
  masked.epilogue = PointwiseProgram::parse("Add(0,1)", 2);
  masked.operands = {{.extents = {2, 33, 2, 64}}};
  cases.push_back(masked);
  for (const auto layout :
       {AttentionLayout::BHSD, AttentionLayout::BSHD}) {  // two heads of q for one of k and v
    const bool bhsd = layout == AttentionLayout::BHSD;
    const Extents q = bhsd ? Extents{2, 4, 33, 64} : Extents{2, 33, 4, 64},
                  k = bhsd ? Extents{2, 2, 33, 64} : Extents{2, 33, 2, 64};
    cases.push_back(attention(q, k, k, {.scale = 0.3f, .layout = layout}));
  }
  for (LayerCase& layer : cases) layer.emulated = 2;
  EXPECT_GE(check_generated(attention_family(), cases), 40);
}

// Few rows over many keys, which blocks share out.
TEST(CudaAttention, SplitKeys) {
  std::vector<LayerCase> cases;
  cases.push_back(attention({1, 4, 1, 128}, {1, 1, 70, 128}, {1, 1, 70, 128}, {.scale = 0.1f}));
  cases.push_back(attention({2, 4, 1, 64}, {2, 2, 330, 64}, {2, 2, 330, 64}, {.scale = 0.1f}));
  cases.push_back(attention({1, 2, 3, 40}, {1, 2, 100, 40}, {1, 2, 100, 24}, {.scale = 0.2f}));
  cases.push_back(attention({1, 1, 8, 256}, {1, 1, 64, 256}, {1, 1, 64, 256}, {.scale = 0.05f}));
  cases.push_back(attention({1, 5, 2, 32}, {1, 90, 2, 32}, {1, 90, 2, 32},
                            {.scale = 0.3f, .causal = true, .layout = AttentionLayout::BSHD}));
  LayerCase masked = attention({2, 4, 1, 32}, {2, 2, 65, 32}, {2, 2, 65, 32}, {.scale = 0.3f});
  masked.dynamic_batch = true;
  masked.inputs.push_back({.dtype = DType::Bool, .extents = {2, 1, 1, 65}, .low = 0, .high = 2});
  cases.push_back(masked);
  masked.dynamic_batch = false;
  masked.inputs.back() = {.extents = {2, 4, 1, 65}, .low = -4, .high = 1};
  masked.epilogue = PointwiseProgram::parse("Add(0,1)", 2);
  masked.operands = {{.extents = {2, 4, 1, 32}}};
  cases.push_back(masked);
  masked.inputs.back() = {.dtype = DType::Bool, .extents = {1, 1}, .low = 0, .high = 0.5};  // nothing is kept
  cases.push_back(masked);
  for (LayerCase& layer : cases) layer.emulated = 3;
  cases[1].emulated = 12;  // all clusters, and parts in two kernels
  EXPECT_GE(check_generated(split_attention_family(), cases), 8 * 3 * 2);
}

TEST(CudaAttention, RefusesLargeHeads) {
  const auto reasons =
      generated_refusals(attention_family(), attention({1, 1, 4, 320}, {1, 1, 4, 320}, {1, 1, 4, 320}, {}));
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("more than 256"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cuda
