// SPDX-License-Identifier: Apache-2.0
//
// Times of generated kernels on a GPU, checked against the oracle on the way:
//   backend_cuda_test --gtest_also_run_disabled_tests --gtest_filter='*Speed*'
#include <gtest/gtest.h>

#include "backend/cuda/generated_check.h"

namespace lathe::cuda {
GeneratedFamily copy_family();
GeneratedFamily pointwise_family();
GeneratedFamily layer_norm_family();
GeneratedFamily softmax_family();
GeneratedFamily reduce_family();
GeneratedFamily group_norm_family();
GeneratedFamily pool_family();
GeneratedFamily depthwise_family();
GeneratedFamily resize_family();
GeneratedFamily gemm_family();
GeneratedFamily wgmma_family();
GeneratedFamily attention_family();
namespace {

const std::vector<DType> kHalf = {DType::Float16};

TEST(CudaSpeed, DISABLED_Elements) {
  time_generated(pointwise_family(),
                 {.op = PointwiseChain{PointwiseProgram::parse("Add(0,1) Relu(2)", 2)},
                  .inputs = {{.extents = {32, 256, 56, 56}}, {.extents = {32, 256, 56, 56}}},
                  .allowed_types = kHalf},
                 "add + relu");
  time_generated(pointwise_family(),
                 {.op = PointwiseChain{PointwiseProgram::parse("Add(0,1) GeluErf(2)", 2)},
                  .inputs = {{.extents = {32, 197, 3072}}, {.extents = {3072}, .constant = true}},
                  .allowed_types = kHalf,
                  .tolerance = 1e-5},
                 "bias + gelu");
  const TensorType image{DType::Float32, kLinear}, half{DType::Float16, kChannelsLast};
  time_generated(copy_family(),
                 {.op = Reformat{}, .inputs = {{.extents = {32, 3, 224, 224}}}, .from = image, .to = half},
                 "image");
  time_generated(copy_family(),
                 {.op = Reformat{},
                  .inputs = {{.extents = {32, 256, 56, 56}}},
                  .from = {DType::Float16, kLinear},
                  .to = half},
                 "to channels-last");
  time_generated(
      copy_family(),
      {.op = Transpose{{0, 2, 1, 3}}, .inputs = {{.extents = {32, 128, 12, 64}}}, .allowed_types = kHalf},
      "heads");
}

TEST(CudaSpeed, DISABLED_Rows) {
  for (const int64_t rows : {128, 4096, 25216})
    time_generated(layer_norm_family(),
                   {.op = LayerNorm{},
                    .inputs = {{.extents = {rows, 768}},
                               {.extents = {768}, .constant = true},
                               {.extents = {768}, .constant = true}},
                    .allowed_types = kHalf,
                    .tolerance = 1e-5},
                   "layer norm");
  time_generated(softmax_family(),
                 {.op = Softmax{}, .inputs = {{.extents = {32 * 12 * 128, 128}}}, .allowed_types = kHalf},
                 "softmax");
  time_generated(reduce_family(),
                 {.op = Reduce{.kind = ReduceKind::Mean, .axes = Ints{2, 3}},
                  .inputs = {{.extents = {1, 2048, 7, 7}}},
                  .allowed_types = kHalf,
                  .tolerance = 1e-5},
                 "mean b1");
  time_generated(reduce_family(),
                 {.op = Reduce{.kind = ReduceKind::Mean, .axes = Ints{2, 3}},
                  .inputs = {{.extents = {128, 2048, 7, 7}}},
                  .allowed_types = kHalf,
                  .tolerance = 1e-5},
                 "mean b128");
  time_generated(group_norm_family(),
                 {.op = GroupNorm{.groups = 32},
                  .inputs = {{.extents = {2, 320, 64, 64}},
                             {.extents = {320}, .constant = true},
                             {.extents = {320}, .constant = true}},
                  .allowed_types = kHalf,
                  .tolerance = 2e-5},
                 "group norm");
}

TEST(CudaSpeed, DISABLED_Windows) {
  const Pool pool{
      .kind = PoolKind::Max, .kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  for (const int64_t n : {1, 32})
    time_generated(pool_family(),
                   {.op = pool, .inputs = {{.extents = {n, 64, 112, 112}}}, .allowed_types = kHalf},
                   "max pool");
  const auto depthwise = [](int64_t n, int64_t c, int64_t size, int64_t k, int64_t stride) {
    time_generated(depthwise_family(),
                   {.op = Conv{.kernel = {k, k},
                               .strides = {stride, stride},
                               .pads_begin = {k / 2, k / 2},
                               .pads_end = {k / 2, k / 2},
                               .groups = c},
                    .inputs = {{.extents = {n, c, size, size}},
                               {.extents = {c, 1, k, k}, .constant = true},
                               {.extents = {c}, .constant = true}},
                    .epilogue = PointwiseProgram::parse("Clip[0,6](0)", 1),
                    .allowed_types = kHalf,
                    .tolerance = 1e-5},
                   "depthwise " + std::to_string(n) + "x" + std::to_string(c) + "x" + std::to_string(size) +
                       " k" + std::to_string(k) + "s" + std::to_string(stride));
  };
  for (const int64_t n : {1, 32}) {
    depthwise(n, 144, 56, 3, 1);
    depthwise(n, 96, 112, 3, 2);
    depthwise(n, 672, 14, 5, 1);
  }
  time_generated(resize_family(),
                 {.op = Resize{.coordinates = CoordinateMode::Asymmetric,
                               .nearest = NearestMode::Floor,
                               .scales = {1, 1, 2, 2}},
                  .inputs = {{.extents = {8, 256, 40, 40}}},
                  .allowed_types = kHalf},
                 "resize");
}

LayerCase fp16_case(Op op, std::vector<CheckedInput> inputs) {
  LayerCase layer{
      .op = std::move(op), .inputs = std::move(inputs), .allowed_types = kHalf, .tolerance = 2e-5};
  layer.rounding = 1.5;
  return layer;
}

TEST(CudaSpeed, DISABLED_Convolutions) {
  const auto conv = [](std::string_view name, int64_t n, int64_t c, int64_t m, int64_t k, int64_t s,
                       int64_t size, bool residual) {
    LayerCase layer = fp16_case(
        Conv{.kernel = {k, k}, .strides = {s, s}, .pads_begin = {k / 2, k / 2}, .pads_end = {k / 2, k / 2}},
        {{.extents = {n, c, size, size}},
         {.extents = {m, c, k, k}, .constant = true, .low = -0.1, .high = 0.1},
         {.extents = {m}, .constant = true}});
    layer.epilogue = PointwiseProgram::parse(residual ? "Add(0,1) Relu(2)" : "Relu(0)", residual ? 2 : 1);
    if (residual) layer.operands = {{.extents = {n, m, size / s, size / s}}};
    time_generated(gemm_family(), layer, std::string(name) + " b" + std::to_string(n));
  };
  for (const int64_t n : {1, 8}) {
    conv("stem_7x7s2", n, 3, 64, 7, 2, 224, false);
    conv("l1_3x3_64", n, 64, 64, 3, 1, 56, false);
    conv("l1_1x1_64_256_res", n, 64, 256, 1, 1, 56, true);
    conv("l2_3x3_128", n, 128, 128, 3, 1, 28, false);
    conv("l2_1x1_512_128", n, 512, 128, 1, 1, 28, false);
    conv("l3_3x3s2_256", n, 256, 256, 3, 2, 28, false);
    conv("l3_3x3_256", n, 256, 256, 3, 1, 14, false);
    conv("l3_1x1_256_1024_res", n, 256, 1024, 1, 1, 14, true);
    conv("l4_3x3_512", n, 512, 512, 3, 1, 7, false);
    conv("l4_1x1_2048_512", n, 2048, 512, 1, 1, 7, false);
  }
  conv("l1_3x3_64", 32, 64, 64, 3, 1, 56, false);
  conv("l3_3x3_256", 32, 256, 256, 3, 1, 14, false);
}

TEST(CudaSpeed, DISABLED_Products) {
  const auto product = [](int64_t m, int64_t n, int64_t k) {
    time_generated(gemm_family(),
                   fp16_case(MatMul{}, {{.extents = {m, k}},
                                        {.extents = {k, n}, .constant = true, .low = -0.1, .high = 0.1}}),
                   "product " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
  };
  for (const int64_t m : {128, 4096}) {
    product(m, 768, 768);
    product(m, 2304, 768);
    product(m, 3072, 768);
    product(m, 768, 3072);
  }
  for (const auto& [b, s] : {std::pair<int64_t, int64_t>{1, 128}, {32, 128}, {1, 197}, {32, 197}}) {
    LayerCase layer =
        fp16_case(Attention{.scale = 0.125f},
                  {{.extents = {b, 12, s, 64}}, {.extents = {b, 12, s, 64}}, {.extents = {b, 12, s, 64}}});
    layer.rounding = 3;
    time_generated(attention_family(), layer, "attention b" + std::to_string(b) + " s" + std::to_string(s));
  }
}

// Bytes and operations of each beside its time; floors on an H200: 790 TFLOP/s, 4.3 TB/s.
TEST(CudaSpeed, DISABLED_Hopper) {
  const auto product = [](int64_t m, int64_t n, int64_t k, std::string_view program) {
    LayerCase layer = fp16_case(
        MatMul{}, {{.extents = {m, k}}, {.extents = {k, n}, .constant = true, .low = -0.1, .high = 0.1}});
    const bool residual = program == "residual";
    layer.epilogue =
        PointwiseProgram::parse(residual ? "Add(0,1) Add(3,2)" : "Add(0,1) GeluErf(2)", residual ? 3 : 2);
    layer.operands = {{.extents = {n}, .constant = true}};
    if (residual) layer.operands.push_back({.extents = {m, n}});
    time_generated(
        wgmma_family(), layer,
        std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " + std::string(program));
  };
  for (const int64_t m : {128, 4096, 6304}) {
    product(m, 768, 768, "residual");
    product(m, 3072, 768, "gelu");
    product(m, 768, 3072, "residual");
  }
  const auto conv = [](int64_t n, int64_t c, int64_t m, int64_t size, std::string_view program) {
    LayerCase layer =
        fp16_case(Conv{.kernel = {1, 1}, .strides = {1, 1}, .pads_begin = {0, 0}, .pads_end = {0, 0}},
                  {{.extents = {n, c, size, size}},
                   {.extents = {m, c, 1, 1}, .constant = true, .low = -0.1, .high = 0.1},
                   {.extents = {m}, .constant = true}});
    layer.epilogue = PointwiseProgram::parse(program, program[0] == 'A' ? 2 : 1);
    if (program[0] == 'A') layer.operands = {{.extents = {n, m, size, size}}};
    time_generated(wgmma_family(), layer,
                   "conv " + std::to_string(n) + "x" + std::to_string(c) + "x" + std::to_string(size) +
                       " to " + std::to_string(m) + " " + std::string(program));
  };
  for (const int64_t n : {1, 32}) {
    conv(n, 16, 96, 112, "Silu[1,0](0)");
    conv(n, 40, 240, 28, "Silu[1,0](0)");
    conv(n, 64, 256, 56, "Add(0,1) Relu(2)");
    conv(n, 512, 128, 28, "Relu(0)");
    conv(n, 1024, 256, 14, "Relu(0)");
  }
}

}  // namespace
}  // namespace lathe::cuda
