// SPDX-License-Identifier: Apache-2.0
//
// Det, Inverse, TreeEnsemble, grids of blocks, and reductions of all types and of no elements as generated
// kernels.
#include <gtest/gtest.h>

#include "backend/check/tree_case.h"
#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily block_grids_family();
GeneratedFamily exact_reduce_family();
GeneratedFamily matrices_family();
GeneratedFamily no_elements_family();
GeneratedFamily packed_cast_family();
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
  for (const int modes : {0, 2})
    cases.push_back(tree_case({.rows = 4, .targets = 3, .modes = modes, .type = DType::Float64}));
  EXPECT_EQ(check_generated(trees_family(), cases), 15);
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

// Types of two bits, and floats of four and eight.
TEST(CudaBlockGrids, SmallTypes) {
  std::vector<LayerCase> cases;
  for (const DType type :
       {DType::Int2, DType::UInt2, DType::Float4E2M1, DType::Float8E4M3FN, DType::Float8E5M2})
    for (const bool saturate : {true, false}) {
      if (!saturate && dtype_info(type).bits < 8) continue;
      cases.push_back({.op = QuantizeLinear{.axis = 1, .to = type, .saturate = saturate},
                       .inputs = {{.extents = {3, 5, 3}, .low = -9, .high = 9},
                                  {.extents = {5}, .low = 0.01, .high = 2},
                                  {.dtype = type, .extents = {5}, .low = 0, .high = 1}}});
      if (dtype_info(type).bits < 8)
        cases.push_back({.op = DequantizeLinear{.axis = 0},
                         .inputs = {{.dtype = type, .extents = {5, 3}, .low = -1, .high = 2},
                                    {.extents = {}, .low = 0.5, .high = 2}}});
    }
  EXPECT_EQ(check_generated(block_grids_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaPackedCast, FromAndToOthers) {
  const DType packed[] = {DType::Int4, DType::UInt4, DType::Int2, DType::UInt2, DType::Float4E2M1};
  std::vector<std::byte> bytes(16);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 17 + i / 2);
  std::vector<LayerCase> cases;
  const auto add = [&](DType from, DType to, const Tensor& x) {
    cases.push_back({.op = Cast{to}, .inputs = {{.dtype = from, .extents = x.extents(), .value = x}}});
  };
  const DType others[] = {DType::Float32, DType::Int8, DType::UInt64, DType::Bool, DType::Float8E5M2};
  for (const DType type : packed) {
    const int64_t count = 16 * 8 / dtype_info(type).bits - 1;
    const Tensor codes = Tensor::wrap(type, {count}, bytes, nullptr);
    for (const DType other : others) add(type, other, codes);
    for (const DType other : packed)
      if (other != type && dtype_info(other).bits == 4) add(type, other, codes);
    const std::vector<double> numbers = {0, 1, 2, 3, 5, 7, 9, 14, 100},
                              edges = {-0.3, -1, -1.8, 2.5, 0.25, -6.5, 3.5, 0.75, -100};
    for (const DType other : {DType::Float16, DType::UInt8})
      add(other, type, Tensor::from_doubles(other, {9}, numbers));
    for (const DType other : {DType::Float32, DType::Float64, DType::Int32})
      add(other, type, Tensor::from_doubles(other, {9}, edges));
  }
  EXPECT_EQ(check_generated(packed_cast_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaExactReduce, TypesAndKinds) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Int64, DType::UInt8, DType::UInt64, DType::Int16, DType::Float64})
    for (int kind = 0; kind <= static_cast<int>(ReduceKind::SumSquare); ++kind) {
      const bool positive =
          !dtype_info(type).is_signed || static_cast<ReduceKind>(kind) == ReduceKind::LogSum;
      cases.push_back(
          {.op =
               Reduce{.kind = static_cast<ReduceKind>(kind), .axes = cases.size() % 2 ? Ints{1} : Ints{0, 2}},
           .inputs = {{.dtype = type, .extents = {4, 9, 5}, .low = positive ? 0.0 : -9.0, .high = 9}},
           .tolerance = 1e-13});
    }
  EXPECT_EQ(check_generated(exact_reduce_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaExactReduce, AxesOfTheRun) {
  const auto axes = [](const std::vector<int64_t>& values) {
    const auto count = static_cast<int64_t>(values.size());
    return CheckedInput{
        .dtype = DType::Int64, .extents = {count}, .value = Tensor::from<int64_t>({count}, values)};
  };
  std::vector<LayerCase> cases;
  for (const bool keeps : {true, false})
    for (const std::vector<int64_t>& list : {std::vector<int64_t>{1}, {-1, 0}, {2, 1, 0}, {}})
      for (const ReduceKind kind :
           {ReduceKind::Sum, ReduceKind::Max, ReduceKind::LogSumExp, ReduceKind::Mean})
        cases.push_back({.op = Reduce{.kind = kind, .keepdims = keeps},
                         .inputs = {{.extents = {4, 9, 5}}, axes(list)},
                         .epilogue = kind == ReduceKind::Mean ? PointwiseProgram::parse("Relu(0)", 1)
                                                              : PointwiseProgram{}});
  // Nothing is reduced; a sum of squares squares all the same.
  cases.push_back({.op = Reduce{.kind = ReduceKind::SumSquare, .noop_with_empty_axes = true},
                   .inputs = {{.extents = {4, 9}}, axes({})}});
  cases.push_back(
      {.op = Reduce{.kind = ReduceKind::SumSquare, .axes = Ints{}}, .inputs = {{.extents = {4, 9}}}});
  EXPECT_EQ(check_generated(exact_reduce_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaNoElements, ReductionsOverNothing) {
  std::vector<LayerCase> cases;
  for (int kind = 0; kind <= static_cast<int>(ReduceKind::SumSquare); ++kind)
    cases.push_back(
        {.op = Reduce{.kind = static_cast<ReduceKind>(kind), .axes = Ints{1}, .keepdims = kind < 5},
         .inputs = {{.extents = {2, 0, 4}}}});
  for (const ReduceKind kind : {ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min})
    for (const DType type : {DType::Int64, DType::UInt8})
      cases.push_back({.op = Reduce{.kind = kind, .axes = Ints{0, 2}},
                       .inputs = {{.dtype = type, .extents = {0, 9, 5}}}});
  cases.push_back({.op = Reduce{.kind = ReduceKind::Max, .axes = Ints{1}},
                   .inputs = {{.dtype = DType::Bool, .extents = {2, 0, 4}}}});
  cases.push_back({.op = Reduce{.axes = Ints{1}},
                   .inputs = {{.extents = {2, 0, 4}}},
                   .epilogue = PointwiseProgram::parse("Exp(0)", 1)});
  const CheckedInput axis{.dtype = DType::Int64, .extents = {1}, .low = 1, .high = 1.5};
  cases.push_back({.op = Reduce{}, .inputs = {{.extents = {2, 0, 4}}, axis}});
  EXPECT_EQ(check_generated(no_elements_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaNoElements, ProductsOfNoColumns) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Float32, DType::Float64, DType::Int32})
    cases.push_back({.op = MatMul{},
                     .inputs = {{.dtype = type, .extents = {2, 3, 0}}, {.dtype = type, .extents = {0, 4}}}});
  cases.push_back({.op = MatMul{.transpose_b = true},
                   .inputs = {{.extents = {3, 0}}, {.extents = {4, 0}, .constant = true}},
                   .epilogue = PointwiseProgram::parse("Add(0,1)", 2),
                   .operands = {{.extents = {4}}}});
  EXPECT_EQ(check_generated(no_elements_family(), cases), static_cast<int>(cases.size()));
}

TEST(CudaNoElements, NothingIsMoved) {
  const std::vector<LayerCase> cases = {
      {.op = Reduce{.axes = Ints{1}}, .inputs = {{.extents = {2, 0, 4}}}},  // a test builds some kernel
      {.op = Reduce{.axes = Ints{2}}, .inputs = {{.extents = {2, 0, 4}}}},
      {.op = ReshapeOp{.shape = to_shape(Extents{3, 0})}, .inputs = {{.extents = {0, 3}}}},
      {.op = Slice{.starts = to_shape(Extents{0}), .ends = to_shape(Extents{0}), .axes = {0}},
       .inputs = {{.extents = {4, 3}}}},
      {.op = Pointwise{PointwiseCode::Relu}, .inputs = {{.extents = {0, 3}}}}};
  EXPECT_EQ(check_generated(no_elements_family(), cases), 5);
}

TEST(CudaNoElements, OthersHaveElements) {
  EXPECT_EQ(check_generated(no_elements_family(),
                            {{.op = Reduce{.axes = Ints{0}}, .inputs = {{.extents = {4, 9}}}},
                             {.op = MatMul{}, .inputs = {{.extents = {3, 2}}, {.extents = {2, 4}}}}}),
            0);
}

TEST(CudaExactReduce, LeavesFloatsWithKnownAxesToOthers) {
  EXPECT_EQ(check_generated(exact_reduce_family(),
                            {{.op = Reduce{.axes = Ints{0}}, .inputs = {{.extents = {4, 9}}}}}),
            0);
}

}  // namespace
}  // namespace lathe::cuda
