// SPDX-License-Identifier: Apache-2.0
//
// Det, Inverse, TreeEnsemble and grids of blocks as generated kernels.
#include <gtest/gtest.h>

#include "backend/check/tree_case.h"
#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily block_grids_family();
GeneratedFamily matrices_family();
GeneratedFamily trees_family();
namespace {

// No special numbers come into a constant; sums that cancel leave little of a determinant.
CheckedInput matrices(Extents extents) {
  return {.extents = std::move(extents), .low = -1, .high = 1};
}

TEST(CudaMatrices, DeterminantsAndInverses) {
  std::vector<LayerCase> cases;
  for (const int64_t n : {1, 2, 3, 7, 33})
    cases.push_back(
        {.op = Det{}, .inputs = {matrices({2, 3, n, n})}, .allowed_types = {DType::Float16}, .rounding = 2});
  cases.back().allowed_types = {};  // a determinant of 33 rows is no number of float16
  for (const int64_t n : {1, 3, 6, 20})
    cases.push_back({.op = Inverse{}, .inputs = {matrices({2, n, n})}, .tolerance = 1e-5});
  cases.push_back({.op = Det{}, .inputs = {matrices({2, 0, 0})}});
  cases.push_back({.op = Inverse{}, .inputs = {matrices({0, 3, 3})}});
  // Rows that need other pivots, and a matrix that has no inverse.
  const std::vector<float> rows = {0, 2, 1, 3, 0, 0, 1, 1, 0};
  cases.push_back(
      {.op = Inverse{}, .inputs = {{.extents = {3, 3}, .value = Tensor::from<float>({3, 3}, rows)}}});
  cases.push_back({.op = Det{}, .inputs = {{.extents = {3, 3}, .value = Tensor::from<float>({3, 3}, rows)}}});
  EXPECT_EQ(check_generated(matrices_family(), cases), 4 * 2 + 1 + 4 + 4);
}

TEST(CudaMatrices, LargeOnesAreRefused) {
  const auto reasons = generated_refusals(matrices_family(), {.op = Det{}, .inputs = {matrices({65, 65})}});
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("matrices of more than 64 rows"), std::string::npos) << reasons[0];
}

TEST(CudaTrees, WalksAndAggregates) {
  std::vector<LayerCase> cases;
  for (const TreeAggregate aggregate :
       {TreeAggregate::Sum, TreeAggregate::Average, TreeAggregate::Min, TreeAggregate::Max})
    for (const int64_t targets : {1, 3, 300})
      cases.push_back(tree_case({.rows = 4,
                                 .trees = targets == 1 ? 300 : 20,
                                 .targets = targets,
                                 .aggregate = aggregate,
                                 .modes = static_cast<int>(aggregate) % 3}));
  cases.push_back(tree_case({.rows = 0}));
  EXPECT_EQ(check_generated(trees_family(), cases), 13);
}

TEST(CudaBlockGrids, BlocksAndFourBits) {
  const Extents x = {3, 10, 5}, scales = {3, 4, 5};
  const CheckedInput scale{.extents = scales, .low = 0.25, .high = 2};
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Int8, DType::UInt8, DType::UInt16, DType::Int4, DType::UInt4}) {
    const double low = type == DType::UInt8 || type == DType::UInt16 || type == DType::UInt4 ? 0 : -5;
    const CheckedInput zero{.dtype = type, .extents = scales, .low = low, .high = 5};
    for (const bool has_zero : {true, false}) {
      cases.push_back({.op = QuantizeLinear{.axis = 1, .block_size = 3, .to = type},
                       .inputs = {{.extents = x, .low = -20, .high = 20}, scale}});
      cases.push_back({.op = DequantizeLinear{.axis = -2, .block_size = 3},
                       .inputs = {{.dtype = type, .extents = x, .low = low, .high = 7.5}, scale},
                       .allowed_types = {DType::Float16}});
      if (has_zero)
        for (size_t i = cases.size() - 2; i < cases.size(); ++i) cases[i].inputs.push_back(zero);
    }
  }
  cases.push_back(
      {.op = QuantizeLinear{.axis = 1, .to = DType::Int4},
       .inputs = {{.extents = {3, 5}, .low = -9, .high = 9}, {.extents = {5}, .low = 0.5, .high = 2}}});
  EXPECT_EQ(check_generated(block_grids_family(), cases), 5 * 2 * 3 + 1);
}

}  // namespace
}  // namespace lathe::cuda
