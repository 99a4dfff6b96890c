// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily layer_norm_family();
GeneratedFamily softmax_family();
GeneratedFamily reduce_family();
GeneratedFamily arg_reduce_family();
GeneratedFamily group_norm_family();
namespace {

TEST(CudaLayerNorm, LengthsTypesAndEpilogue) {
  std::vector<LayerCase> cases;
  for (const int64_t n : {1, 33, 130, 768, 5000}) {
    LayerCase layer{.op = LayerNorm{.axis = -1, .epsilon = 1e-5f},
                    .inputs = {{.extents = {3, 2, n}},
                               {.extents = {n}, .constant = true},
                               {.extents = {n}, .constant = true}},
                    .allowed_types = kHalves,
                    .dynamic_batch = true};
    cases.push_back(layer);
    if (n != 768) continue;
    layer.epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2);
    layer.operands = {{.extents = {3, 2, n}}};
    cases.push_back(layer);
  }
  cases.push_back(
      {.op = LayerNorm{.axis = -1, .rms = true}, .inputs = {{.extents = {9, 77}}, {.extents = {77}}}});
  cases.push_back({.op = LayerNorm{.axis = 1}, .inputs = {{.extents = {4, 5, 6}}}, .outputs = 3});
  cases.push_back(
      {.op = LayerNorm{}, .inputs = {{.extents = {6, 256}, .low = 90, .high = 110}}, .tolerance = 1e-5});
  // Many rows: two for each warp.
  LayerCase many{.op = LayerNorm{.axis = -1},
                 .inputs = {{.extents = {1029, 40}},
                            {.extents = {40}, .constant = true},
                            {.extents = {40}, .constant = true}},
                 .allowed_types = {DType::Float16}};
  cases.push_back(many);
  // What lies in front of the epilogue is a result, too.
  many.epilogue = PointwiseProgram::parse("Relu(0)", 1);
  many.outputs = 4;
  many.unasked = {1, 2};
  cases.push_back(many);
  cases.push_back({.op = LayerNorm{.axis = 1}, .inputs = {{.extents = {4, 5, 6}}}, .outputs = 4});
  EXPECT_GE(check_generated(layer_norm_family(), cases), 21 + 4 + 5);
}

TEST(CudaSoftmax, AnyAxisAndLength) {
  std::vector<LayerCase> cases;
  for (const bool log : {false, true})
    for (const int64_t n : {1, 17, 128, 1200}) {
      cases.push_back({.op = Softmax{.axis = -1, .log = log},
                       .inputs = {{.extents = {5, n}, .low = -20, .high = 20}},
                       .allowed_types = kHalves});
      cases.push_back({.op = Softmax{.axis = 1, .log = log},
                       .inputs = {{.extents = {2, n, 6}, .low = -20, .high = 20}},
                       .allowed_types = kHalves});
    }
  EXPECT_GE(check_generated(softmax_family(), cases), 48);
}

TEST(CudaReduce, KindsAxesAndFormats) {
  std::vector<LayerCase> cases;
  for (const ReduceKind kind :
       {ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min, ReduceKind::Prod, ReduceKind::L1,
        ReduceKind::L2, ReduceKind::LogSum, ReduceKind::LogSumExp, ReduceKind::SumSquare}) {
    const double low = kind == ReduceKind::Prod || kind == ReduceKind::LogSum ? 0.8 : -2;
    for (const Ints& axes : {Ints{1}, Ints{0, 2}, Ints{-1}})
      cases.push_back({.op = Reduce{.kind = kind, .axes = axes},
                       .inputs = {{.extents = {4, 9, 10}, .low = low, .high = 2}},
                       .tolerance = 4e-6});
  }
  for (const bool keep : {true, false}) {
    cases.push_back({.op = Reduce{.kind = ReduceKind::Mean, .axes = Ints{2, 3}, .keepdims = keep},
                     .inputs = {{.extents = {2, 72, 7, 7}}},
                     .allowed_types = kHalves,
                     .tolerance = 4e-6,
                     .dynamic_batch = true});
    cases.push_back({.op = Reduce{.kind = ReduceKind::Max, .axes = Ints{1}, .keepdims = keep},
                     .inputs = {{.extents = {2, 5, 3, 4}}}});
  }
  cases.push_back(
      {.op = Reduce{.kind = ReduceKind::Sum}, .inputs = {{.extents = {70, 90}}}, .tolerance = 1e-5});
  cases.push_back({.op = Reduce{.kind = ReduceKind::Mean, .axes = Ints{2, 3}},
                   .inputs = {{.extents = {2, 16, 4, 4}}},
                   .epilogue = PointwiseProgram::parse("Mul(0,1)", 2),
                   .operands = {{.extents = {16, 1, 1}, .constant = true}}});
  // Few channels and many pixels: the pixels are shared by blocks.
  for (const ReduceKind kind : {ReduceKind::Mean, ReduceKind::Max})
    cases.push_back({.op = Reduce{.kind = kind, .axes = Ints{2, 3}},
                     .inputs = {{.extents = {2, 24, 40, 31}}},
                     .epilogue = PointwiseProgram::parse("Mul(0,1)", 2),
                     .operands = {{.extents = {24, 1, 1}, .constant = true}},
                     .allowed_types = kHalves,
                     .tolerance = 4e-6,
                     .dynamic_batch = true});
  EXPECT_GE(check_generated(reduce_family(), cases), 90);
}

TEST(CudaReduce, LargestIndex) {
  std::vector<LayerCase> cases;
  for (const bool max : {false, true})
    for (const int64_t axis : {0, 1, -1})
      for (const bool last : {false, true})  // few distinct values: ties
        cases.push_back(
            {.op = ArgReduce{.max = max, .axis = axis, .keepdims = last, .select_last_index = last},
             .inputs = {{.dtype = DType::Float32, .extents = {6, 40, 5}, .low = 0, .high = 0.01}}});
  for (const DType type :
       {DType::Int32, DType::Int64, DType::UInt8, DType::UInt64, DType::Bool, DType::Float64})
    cases.push_back({.op = ArgReduce{.axis = 1},
                     .inputs = {{.dtype = type, .extents = {6, 40, 5}, .low = 0, .high = 1.9}}});
  EXPECT_EQ(check_generated(arg_reduce_family(), cases), 12 + 6);
}

TEST(CudaGroupNorm, GroupsAndFormats) {
  std::vector<LayerCase> cases;
  for (const int64_t groups : {0, 1, 2, 8})
    cases.push_back({.op = GroupNorm{.groups = groups},
                     .inputs = {{.extents = {2, 16, 5, 4}},
                                {.extents = {16}, .constant = true},
                                {.extents = {16}, .constant = true}},
                     .epilogue = PointwiseProgram::parse("Silu[1,0](0)", 1),
                     .allowed_types = kHalves,
                     .tolerance = 1e-5});
  EXPECT_EQ(check_generated(group_norm_family(), cases), 24);
}

// Large groups, which several blocks share.
TEST(CudaGroupNorm, Parts) {
  std::vector<LayerCase> cases;
  for (const int64_t width : {64, 83})
    cases.push_back({.op = GroupNorm{.groups = 2},
                     .inputs = {{.extents = {1, 6, 30, width}, .low = 3, .high = 5},
                                {.extents = {6}, .constant = true},
                                {.extents = {6}, .constant = true}},
                     .allowed_types = {DType::Float16},
                     .tolerance = 2e-5});
  EXPECT_GE(check_generated(group_norm_family(), cases), 2 * 2 * 2 * 2);
}

}  // namespace
}  // namespace lathe::cuda
