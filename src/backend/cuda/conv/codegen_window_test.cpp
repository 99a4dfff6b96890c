// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily pool_family();
GeneratedFamily depthwise_family();
namespace {

TEST(CudaPool, KindsWindowsAndFormats) {
  std::vector<LayerCase> cases;
  for (const PoolKind kind : {PoolKind::Max, PoolKind::Average, PoolKind::Lp})
    for (const int64_t c : {16, 5})
      cases.push_back({.op = Pool{.kind = kind,
                                  .kernel = {3, 2},
                                  .strides = {2, 2},
                                  .pads_begin = {1, 0},
                                  .pads_end = {1, 1}},
                       .inputs = {{.extents = {2, c, 9, 8}}},
                       .allowed_types = kHalves,
                       .tolerance = 4e-6,
                       .dynamic_batch = true});
  cases.push_back({.op = Pool{.kind = PoolKind::Average,
                              .kernel = {3, 3},
                              .strides = {2, 2},
                              .pads_begin = {1, 1},
                              .pads_end = {1, 1},
                              .ceil_mode = true,
                              .count_include_pad = true},
                   .inputs = {{.extents = {1, 4, 8, 8}}}});
  cases.push_back(
      {.op = Pool{.kind = PoolKind::Max, .kernel = {3, 3}, .strides = {2, 2}, .auto_pad = AutoPad::SameUpper},
       .inputs = {{.extents = {1, 4, 8, 7}}},
       .epilogue = PointwiseProgram::parse("Relu(0)", 1)});
  cases.push_back({.op = Pool{.kind = PoolKind::Max, .kernel = {2, 3, 2}, .dilations = {1, 2, 1}},
                   .inputs = {{.extents = {1, 4, 5, 7, 4}}}});
  cases.push_back({.op = Pool{.kind = PoolKind::Average, .kernel = {4}}, .inputs = {{.extents = {2, 4, 9}}}});
  EXPECT_EQ(check_generated(pool_family(), cases), 6 * 6 + 4 * 2);
}

// Equal elements, too: the first one's index counts.
TEST(CudaPool, Indices) {
  std::vector<LayerCase> cases;
  for (const bool column_major : {false, true})
    for (const double high : {2.0, 100.0}) {
      const Pool op{.kernel = {3, 2},
                    .strides = {2, 1},
                    .pads_begin = {1, 0},
                    .pads_end = {1, 1},
                    .column_major = column_major};
      cases.push_back({.op = op,
                       .inputs = {{.dtype = DType::Int8, .extents = {2, 3, 9, 8}, .low = 0, .high = high}},
                       .outputs = 2});
      cases.push_back({.op = op,
                       .inputs = {{.extents = {2, 3, 9, 8}, .high = high}},
                       .outputs = 2,
                       .dynamic_batch = true});
      cases.push_back({.op = Pool{.kernel = {2}, .column_major = column_major},
                       .inputs = {{.dtype = DType::Float64, .extents = {2, 3, 9}}},
                       .outputs = 2});
    }
  EXPECT_EQ(check_generated(pool_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaPool, IntegersAndDoubles) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::UInt8, DType::Int8, DType::Int64, DType::Float64}) {
    const double low = type == DType::UInt8 ? 0 : -90;
    cases.push_back(
        {.op = Pool{.kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}},
         .inputs = {{.dtype = type, .extents = {2, 16, 7, 6}, .low = low, .high = 90}}});
  }
  for (const int64_t p : {2, 3})
    cases.push_back({.op = Pool{.kind = PoolKind::Lp, .kernel = {2, 2}, .p = p},
                     .inputs = {{.dtype = DType::Float64, .extents = {1, 3, 5, 5}}},
                     .tolerance = 1e-13});
  cases.push_back({.op = Pool{.kind = PoolKind::Average, .kernel = {2, 2}},
                   .inputs = {{.dtype = DType::Float64, .extents = {1, 3, 5, 5}}},
                   .tolerance = 1e-13});
  EXPECT_EQ(check_generated(pool_family(), cases), 2 * static_cast<int>(cases.size()));
}

TEST(CudaPool, MeansOfIntegersAreRefused) {
  const auto reasons =
      generated_refusals(pool_family(), {.op = Pool{.kind = PoolKind::Average, .kernel = {2, 2}},
                                         .inputs = {{.dtype = DType::Int8, .extents = {1, 2, 4, 4}}}});
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("no means of int8"), std::string::npos) << reasons[0];
}

TEST(CudaDepthwise, WindowsStridesAndEpilogue) {
  std::vector<LayerCase> cases;
  for (const int64_t k : {3, 5})
    for (const int64_t stride : {1, 2}) {
      LayerCase layer{.op = Conv{.kernel = {k, k},
                                 .strides = {stride, stride},
                                 .pads_begin = {k / 2, k / 2},
                                 .pads_end = {k / 2, k / 2},
                                 .groups = 24},
                      .inputs = {{.extents = {2, 24, 9, 11}},
                                 {.extents = {24, 1, k, k}, .constant = true},
                                 {.extents = {24}, .constant = true}},
                      .allowed_types = kHalves,
                      .tolerance = 4e-6,
                      .dynamic_batch = true};
      if (stride == 2) {
        layer.epilogue = PointwiseProgram::parse("Silu[1,0](0) Add(2,1)", 2);
        layer.operands = {{.extents = {2, 24, 5, 6}}};
      }
      cases.push_back(layer);
    }
  cases.push_back({.op = Conv{.kernel = {3, 3},
                              .strides = {1, 1},
                              .dilations = {2, 1},
                              .groups = 6,
                              .auto_pad = AutoPad::SameUpper},
                   .inputs = {{.extents = {1, 6, 8, 7}}, {.extents = {6, 1, 3, 3}, .constant = true}},
                   .tolerance = 4e-6});
  EXPECT_EQ(check_generated(depthwise_family(), cases), 4 * 18 + 6);
}

}  // namespace
}  // namespace lathe::cuda
