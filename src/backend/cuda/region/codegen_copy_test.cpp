// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily copy_family();
namespace {

TEST(CudaCopy, TransposesThroughTilesAndWithout) {
  std::vector<LayerCase> cases;
  for (const Ints& perm : {Ints{0, 2, 1}, Ints{2, 1, 0}, Ints{1, 0, 2}, Ints{1, 2, 0}})
    for (const bool dynamic : {false, true})
      for (const Extents& shape : {Extents{2, 35, 70}, Extents{4, 3, 8}})
        cases.push_back({.op = Transpose{perm},
                         .inputs = {{.extents = shape}},
                         .allowed_types = {DType::Float16},
                         .dynamic_batch = dynamic});
  cases.push_back({.op = Transpose{{0, 2, 1, 3}},
                   .inputs = {{.extents = {2, 5, 3, 16}}},
                   .allowed_types = {DType::BFloat16}});
  cases.push_back({.op = Transpose{{1, 0}}, .inputs = {{.dtype = DType::Float64, .extents = {33, 40}}}});
  cases.push_back({.op = Transpose{{1, 0}},
                   .inputs = {{.extents = {33, 40}}},
                   .epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2),
                   .operands = {{.extents = {33}}}});
  EXPECT_EQ(check_generated(copy_family(), cases), 16 * 2 + 2 + 1 + 1);
}

TEST(CudaCopy, PartsInAllFormats) {
  std::vector<LayerCase> cases;
  for (const int64_t axis : {0, 1, -1}) {
    const Extents part = {2, 8, 3, 5};
    cases.push_back({.op = Concat{axis},
                     .inputs = {{.extents = part}, {.extents = part}, {.extents = part}},
                     .allowed_types = {DType::Float16}});
    // In the type of the constant alone.
    cases.push_back({.op = Concat{axis},
                     .inputs = {{.extents = part}, {.extents = part}, {.extents = part, .constant = true}},
                     .allowed_types = {DType::Float16}});
    cases.push_back(
        {.op = Split{axis, {Dim(1), Dim(1)}}, .inputs = {{.extents = {2, 2, 3, 2}}}, .outputs = 2});
  }
  cases.push_back({.op = Slice{.starts = Shape{Dim(1), Dim(4)},
                               .ends = Shape{Dim(7), Dim(0)},
                               .axes = {1, 3},
                               .steps = {2, -1}},
                   .inputs = {{.extents = {2, 8, 3, 6}}}});
  cases.push_back({.op = Slice{.starts = Shape{Dim(8)}, .ends = Shape{Dim(24)}, .axes = {1}, .steps = {1}},
                   .inputs = {{.extents = {2, 32, 4, 4}}},
                   .allowed_types = {DType::Float16}});
  EXPECT_EQ(check_generated(copy_family(), cases), 3 * (4 + 2 + 2) + 2 + 4);
}

TEST(CudaCopy, ReformatsBetweenTypesAndFormats) {
  std::vector<LayerCase> cases;
  const TensorType types[] = {{DType::Float32, kLinear},
                              {DType::Float32, kChannelsLast},
                              {DType::Float16, kChannelsLast},
                              {DType::BFloat16, kLinear}};
  for (const Extents& extents : {Extents{2, 3, 6, 7}, Extents{2, 40, 5, 8}})
    for (const TensorType& from : types)
      for (const TensorType& to : types)
        cases.push_back({.op = Reformat{},
                         .inputs = {{.extents = extents}},
                         .dynamic_batch = true,
                         .from = from,
                         .to = to});
  EXPECT_EQ(check_generated(copy_family(), cases), 32);
}

// Shapes that only values say, and dims of 1 that only the run knows.
TEST(CudaCopy, ExpandAndTileByValues) {
  const auto values = [](const std::vector<int64_t>& list) {
    const auto n = static_cast<int64_t>(list.size());
    return CheckedInput{.dtype = DType::Int64, .extents = {n}, .value = Tensor::from<int64_t>({n}, list)};
  };
  std::vector<LayerCase> cases = {
      {.op = Expand{}, .inputs = {{.extents = {3, 1, 5}}, values({2, 3, 4, 5})}},
      {.op = Expand{}, .inputs = {{.extents = {1, 7}}, values({6, 7})}, .dynamic_batch = true},
      {.op = Expand{}, .inputs = {{.extents = {4, 7}}, values({4, 7})}, .dynamic_batch = true},
      {.op = Tile{}, .inputs = {{.extents = {3, 5}}, values({2, 3})}, .dynamic_batch = true},
      {.op = ReshapeOp{}, .inputs = {{.extents = {4, 6}}, values({3, -1, 2})}},
      {.op = ReshapeOp{}, .inputs = {{.dtype = DType::Float64, .extents = {4, 6}}, values({0, 3, 2})}}};
  EXPECT_EQ(check_generated(copy_family(), cases), 6);
}

TEST(CudaCopy, ExpandTileAndDepthToSpace) {
  std::vector<LayerCase> cases = {
      {.op = Expand{Shape{Dim(2), Dim(3), Dim(4), Dim(8)}}, .inputs = {{.extents = {3, 1, 8}}}},
      {.op = Expand{Shape{Dim(3), Dim(7)}}, .inputs = {{.extents = {3, 1}}}},
      {.op = Tile{Shape{Dim(2), Dim(1), Dim(3)}}, .inputs = {{.extents = {2, 3, 4}}}}};
  for (const bool crd : {false, true})
    for (const bool inverse : {false, true})
      cases.push_back({.op = DepthToSpace{.block = 2, .crd = crd, .inverse = inverse},
                       .inputs = {{.extents = {2, 8, 4, 6}}}});
  EXPECT_EQ(check_generated(copy_family(), cases), 7);
}

}  // namespace
}  // namespace lathe::cuda
