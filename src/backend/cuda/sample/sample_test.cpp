// SPDX-License-Identifier: Apache-2.0
//
// GridSample, RoiAlign, MaxRoiPool, DeformConv and random numbers as generated kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cuda/codegen/generated_check.h"
#include "ops/window.h"

namespace lathe::cuda {
GeneratedFamily col2im_family();
GeneratedFamily deform_conv_family();
GeneratedFamily grid_sample_family();
GeneratedFamily max_roi_pool_family();
GeneratedFamily random_family();
GeneratedFamily roi_align_family();
GeneratedFamily sampled_conv_family();
GeneratedFamily sampled_conv_transpose_family();
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(),
                kInfinity = std::numeric_limits<float>::infinity();

TEST(CudaGridSample, ModesPaddingsAndRanks) {
  std::vector<LayerCase> cases;
  for (const ResizeMode mode : {ResizeMode::Nearest, ResizeMode::Linear, ResizeMode::Cubic})
    for (const GridPadding padding : {GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection})
      for (const bool corners : {false, true})
        cases.push_back(
            {.op = GridSample{mode, padding, corners},
             .inputs = {{.extents = {2, 3, 5, 7}}, {.extents = {2, 4, 3, 2}, .low = -1.6, .high = 1.6}}});
  for (const ResizeMode mode : {ResizeMode::Nearest, ResizeMode::Linear}) {
    cases.push_back(
        {.op = GridSample{mode},
         .inputs = {{.extents = {1, 2, 3, 4, 5}}, {.extents = {1, 2, 3, 2, 3}, .low = -1.2, .high = 1.2}},
         .allowed_types = {DType::Float16, DType::BFloat16},
         .rounding = 4,
         .dynamic_batch = true});
    for (const DType type : {DType::Float32, DType::Float64})
      cases.push_back({.op = GridSample{mode},
                       .inputs = {{type, {2, 3, 5, 7}}, {DType::Float64, {2, 2, 3, 2}, false, -1.4, 1.4}},
                       .tolerance = type == DType::Float64 ? 1e-14 : 2e-6});
    cases.push_back({.op = GridSample{mode},
                     .inputs = {{.extents = {2, 130, 9}}, {.extents = {2, 6, 1}, .low = -1.2, .high = 1.2}}});
  }
  EXPECT_EQ(check_generated(grid_sample_family(), cases), 18 + 2 * (3 + 1 + 2));
}

TEST(CudaGridSample, PlacesThatAreNoneAndNoElements) {
  const std::vector<float> far = {kNaN,  0,      kInfinity, 0,    -kInfinity, kInfinity,
                                  3e38f, -3e38f, 1e10f,     0.5f, 0,          -1e9f};
  std::vector<LayerCase> cases;
  for (const GridPadding padding : {GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection})
    cases.push_back(
        {.op = GridSample{ResizeMode::Linear, padding},
         .inputs = {{.extents = {1, 3, 5, 7}}, {.value = Tensor::from<float>({1, 2, 3, 2}, far)}}});
  for (LayerCase& layer : cases) layer.inputs[1].extents = {1, 2, 3, 2};
  cases.push_back({.op = GridSample{}, .inputs = {{.extents = {2, 0, 5, 7}}, {.extents = {2, 2, 3, 2}}}});
  cases.push_back({.op = GridSample{}, .inputs = {{.extents = {2, 3, 5, 7}}, {.extents = {2, 0, 3, 2}}}});
  EXPECT_EQ(check_generated(grid_sample_family(), cases), 5);
}

CheckedInput boxes(int64_t count, double low, double high) {
  return {.extents = {count, 4}, .low = low, .high = high};
}
CheckedInput images(int64_t count, double below) {
  return {.dtype = DType::Int64, .extents = {count}, .low = 0, .high = below - 0.1};
}

TEST(CudaRoiAlign, ModesPointsAndSizes) {
  std::vector<LayerCase> cases;
  for (const bool max : {false, true})
    for (const bool half_pixel : {false, true})
      for (const int64_t points : {0, 1, 2, 5})
        cases.push_back({.op = RoiAlign{.max = max,
                                        .half_pixel = half_pixel,
                                        .output_height = 3,
                                        .output_width = 4,
                                        .sampling_ratio = points,
                                        .spatial_scale = 0.5f},
                         .inputs = {{.extents = {2, 19, 9, 11}}, boxes(7, -6, 30), images(7, 2)}});
  for (const double size : {0.01, 300.0, 1e9})
    cases.push_back({.op = RoiAlign{.output_height = 2, .output_width = 3},
                     .inputs = {{.extents = {1, 5, 30, 1}}, boxes(9, -size, size), images(9, 1)},
                     .allowed_types = {DType::Float16, DType::BFloat16},
                     .rounding = 4});
  cases.push_back({.op = RoiAlign{}, .inputs = {{.extents = {1, 3, 4, 4}}, boxes(0, 0, 1), images(0, 1)}});
  EXPECT_EQ(check_generated(roi_align_family(), cases), 16 + 3 * 3 + 1);
}

TEST(CudaMaxRoiPool, BoxesInsideAndOutside) {
  std::vector<LayerCase> cases;
  for (const double reach : {4.0, 30.0, 1e9}) {
    std::vector<float> values;
    for (int i = 0; i < 9; ++i) {
      values.push_back(static_cast<float>(i % 2));
      for (int k = 0; k < 4; ++k)
        values.push_back(static_cast<float>(-reach / 3 + reach * ((i * 7 + k * 11) % 13) / 12));
    }
    cases.push_back(
        {.op = MaxRoiPool{.output_height = 3, .output_width = 2, .spatial_scale = 0.75f},
         .inputs = {{.extents = {2, 5, 11, 13}},
                    {.extents = {9, 5}, .constant = true, .value = Tensor::from<float>({9, 5}, values)}},
         .allowed_types = {DType::Float16}});
  }
  EXPECT_EQ(check_generated(max_roi_pool_family(), cases), 3 * 2);
}

struct Deformed {
  Extents x = {1, 4, 9, 8}, w = {6, 4, 3, 3};
  int64_t offset_groups = 1, stride = 1, dilation = 1;
  bool bias = true, mask = true;
  double reach = 3;
};

LayerCase layer_of(const Deformed& p) {
  const DeformConv op{.kernel = {p.w[2], p.w[3]},
                      .strides = {p.stride, p.stride},
                      .dilations = {p.dilation, p.dilation},
                      .pads_begin = {1, 1},
                      .pads_end = {1, 1},
                      .groups = p.x[1] / p.w[1],
                      .offset_groups = p.offset_groups};
  const auto out = [&](int64_t extent, int64_t kernel) {
    return (extent + 2 - (kernel - 1) * p.dilation - 1) / p.stride + 1;
  };
  const int64_t taps = p.w[2] * p.w[3] * p.offset_groups, h = out(p.x[2], p.w[2]), w = out(p.x[3], p.w[3]);
  LayerCase layer{.op = op,
                  .inputs = {{.extents = p.x},
                             {.extents = p.w, .constant = true},
                             {.extents = {p.x[0], 2 * taps, h, w}, .low = -p.reach, .high = p.reach},
                             {.extents = {p.w[0]}, .absent = !p.bias}},
                  .tolerance = 4e-6,
                  .rounding = 2};
  if (p.mask) layer.inputs.push_back({.extents = {p.x[0], taps, h, w}, .low = 0, .high = 1});
  return layer;
}

TEST(CudaDeformConv, GroupsMasksAndFarOffsets) {
  std::vector<LayerCase> cases;
  for (const int64_t offset_groups : {1, 2})
    for (const int64_t per_group : {4, 2})
      cases.push_back(layer_of({.x = {2, 4, 9, 8},
                                .w = {8, per_group, 3, 2},
                                .offset_groups = offset_groups,
                                .stride = 1 + offset_groups % 2,
                                .dilation = per_group / 2,
                                .bias = per_group == 4,
                                .mask = offset_groups == 2}));
  cases.push_back(layer_of({.x = {1, 7, 11, 10}, .w = {70, 7, 3, 3}, .reach = 1e10}));
  cases.back().allowed_types = {DType::Float16, DType::BFloat16};
  EXPECT_EQ(check_generated(deform_conv_family(), cases), 4 + 3);
}

LayerCase transposed(const ConvTranspose& op, Extents x, Extents w, bool constant) {
  const int64_t filters = w[1] * op.groups;
  return {.op = op,
          .inputs = {{.extents = std::move(x)},
                     {.extents = std::move(w), .constant = constant},
                     {.extents = {filters}}},
          .tolerance = 4e-6,
          .rounding = 2};
}

TEST(CudaSampledConvTranspose, WindowsPadsAndRanks) {
  std::vector<LayerCase> cases;
  for (const int64_t groups : {1, 3})
    for (const int64_t stride : {1, 3})
      cases.push_back(transposed({.kernel = {3, 2},
                                  .strides = {stride, stride},
                                  .dilations = {2, 1},
                                  .pads_begin = {1, 0},
                                  .pads_end = {0, 1},
                                  .output_padding = {stride - 1, 0},
                                  .groups = groups},
                                 {2, 6, 5, 7}, {6, 17, 3, 2}, stride == 1));
  for (const AutoPad pad : {AutoPad::SameUpper, AutoPad::SameLower, AutoPad::Valid})
    cases.push_back(
        transposed({.kernel = {4, 4}, .strides = {2, 2}, .auto_pad = pad}, {1, 3, 6, 6}, {3, 5, 4, 4}, true));
  cases.push_back(transposed({.kernel = {3, 3}, .strides = {2, 2}, .output_shape = {12, 11}}, {1, 3, 6, 6},
                             {3, 5, 3, 3}, true));
  cases.push_back(transposed({.kernel = {5}, .strides = {2}}, {2, 4, 30}, {4, 3, 5}, false));
  cases.push_back(
      transposed({.kernel = {2, 2, 2}, .strides = {2, 2, 2}}, {1, 4, 3, 4, 5}, {4, 70, 2, 2, 2}, false));
  cases.back().allowed_types = {DType::Float16, DType::BFloat16};
  cases.push_back(transposed({.kernel = {2, 2}, .strides = {2, 2}}, {1, 4, 3, 5}, {4, 6, 2, 2}, false));
  cases.back().epilogue = PointwiseProgram::parse("Relu(0) Add(1,2)", 2);
  cases.back().operands = {{.extents = {1, 6, 6, 10}}};
  EXPECT_EQ(check_generated(sampled_conv_transpose_family(), cases), 4 + 3 + 1 + 1 + 3 + 1);
}

TEST(CudaSampledConv, WeightsOfTheRun) {
  std::vector<LayerCase> cases;
  const auto conv = [&](const Conv& op, Extents x, Extents w, bool biased) {
    LayerCase layer{.op = op, .inputs = {{.extents = std::move(x)}, {.extents = w}}};
    if (biased) layer.inputs.push_back({.extents = {w[0]}});
    return layer;
  };
  cases.push_back(conv({.kernel = {3, 2}, .strides = {2, 1}, .pads_begin = {1, 0}, .pads_end = {2, 1}},
                       {2, 3, 9, 7}, {70, 3, 3, 2}, true));
  cases.back().allowed_types = {DType::Float16};
  cases.push_back(conv({.kernel = {3}, .dilations = {2}, .groups = 2, .auto_pad = AutoPad::SameUpper},
                       {1, 4, 20}, {6, 2, 3}, false));
  cases.push_back(
      conv({.kernel = {2, 3, 2}, .auto_pad = AutoPad::SameLower}, {1, 2, 4, 5, 6}, {5, 2, 2, 3, 2}, true));
  cases.back().epilogue = PointwiseProgram::parse("Relu(0)", 1);
  EXPECT_EQ(check_generated(sampled_conv_family(), cases), 4);
  EXPECT_EQ(check_generated(sampled_conv_family(),
                            {{.op = Conv{.kernel = {1}},
                              .inputs = {{.extents = {1, 2, 3}}, {.extents = {4, 2, 1}, .constant = true}}}}),
            0);
}

LayerCase blocks_of(const Col2Im& op, const Extents& image, const Extents& block) {
  int64_t blocks = 1;
  const WindowSpec spec{block, op.strides, op.dilations, op.pads_begin, op.pads_end};
  for (const WindowAxis& axis : resolve_window(spec, image)) blocks *= axis.output;
  const auto list = [](const Extents& values) {
    const Extents extents = {static_cast<int64_t>(values.size())};
    return CheckedInput{.dtype = DType::Int64,
                        .extents = extents,
                        .constant = true,
                        .value = Tensor::from<int64_t>(extents, values)};
  };
  return {.op = op, .inputs = {{.extents = {2, 3 * element_count(block), blocks}}, list(image), list(block)}};
}

TEST(CudaCol2Im, WindowsAndRanks) {
  std::vector<LayerCase> cases;
  for (const int64_t stride : {1, 3})
    for (const int64_t dilation : {1, 2}) {
      const Ints s = {stride, 1}, d = {dilation, dilation}, p = {2, 0};
      cases.push_back(blocks_of({s, d, p, p}, {9, 11}, {3, 2}));
      cases.push_back(blocks_of({{stride}, {dilation}, {1}, {2}}, {40}, {4}));
    }
  cases.push_back(blocks_of({{1, 2, 3}, {1, 1, 2}, {0, 1, 2}, {0, 1, 0}}, {4, 5, 8}, {2, 3, 2}));
  cases.back().allowed_types = {DType::Float16};
  cases.push_back(blocks_of({{50, 50}, {1, 1}, {2, 2}, {2, 2}}, {9, 11}, {3, 2}));
  // An image and a block that only the run brings.
  cases.push_back(blocks_of({{1, 2}, {2, 1}, {2, 0}, {2, 0}}, {9, 11}, {3, 2}));
  for (size_t i : {1, 2}) cases.back().inputs[i].constant = false;
  EXPECT_EQ(check_generated(col2im_family(), cases), 8 + 2 + 1 + 1);
}

TEST(CudaRandom, TheNumbersOfTheOracle) {
  std::vector<LayerCase> cases;
  for (const int64_t seed : {int64_t{0}, int64_t{7}, int64_t{-1}, INT64_MAX}) {
    cases.push_back(
        {.op = RandomUniform{.shape = to_shape(Extents{3, 7, 11}), .low = -3, .high = 5, .seed = seed},
         .allowed_types = {DType::Float16},
         .tolerance = 0});
    cases.push_back(
        {.op = RandomNormal{.shape = to_shape(Extents{300}), .mean = 1, .scale = 2, .seed = seed}});
  }
  EXPECT_EQ(check_generated(random_family(), cases), 4 * 3);
}

}  // namespace
}  // namespace lathe::cuda
