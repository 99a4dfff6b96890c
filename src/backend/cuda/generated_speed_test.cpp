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

}  // namespace
}  // namespace lathe::cuda
