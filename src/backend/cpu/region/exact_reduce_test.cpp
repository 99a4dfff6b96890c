// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily exact_reduce_tactics();
namespace {

constexpr ReduceKind kKinds[] = {
    ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max,    ReduceKind::Min,       ReduceKind::Prod,
    ReduceKind::L1,  ReduceKind::L2,   ReduceKind::LogSum, ReduceKind::LogSumExp, ReduceKind::SumSquare};

TEST(ExactReduceTactics, KindsTypesAndAxes) {
  for (const ReduceKind kind : kKinds)
    for (const DType type : {DType::Int64, DType::Int32, DType::UInt8, DType::UInt64, DType::Float64})
      for (const Ints& axes : {Ints{0}, Ints{-1}, Ints{0, 2}, Ints{1, 3}, Ints{0, 1, 2, 3}}) {
        SCOPED_TRACE(std::string(enum_name(kind)) + " of " + std::string(dtype_name(type)) + to_string(axes));
        EXPECT_GE(check_layer(exact_reduce_tactics(),
                              {.op = Reduce{.kind = kind, .axes = axes, .keepdims = axes[0] == 0},
                               .inputs = {{type, {3, 4, 2, 70}, false, 1, 3}}}),
                  1);
      }
}

TEST(ExactReduceTactics, FloatsThatHaveNoVectorKernel) {
  for (const ReduceKind kind : {ReduceKind::Prod, ReduceKind::LogSumExp}) {
    LayerCase layer{.op = Reduce{.kind = kind, .axes = Ints{1}},
                    .inputs = {{.extents = {5, 9, 33}, .low = 0.5, .high = 1.5}}};
    EXPECT_GE(check_layer(exact_reduce_tactics(), layer), 1);
    layer.epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2);
    layer.operands = {{.extents = {5, 1, 33}}};
    EXPECT_GE(check_layer(exact_reduce_tactics(), layer), 1);
  }
  EXPECT_GE(check_layer(exact_reduce_tactics(), {.op = Reduce{.kind = ReduceKind::Sum, .axes = Ints{0, 2}},
                                                 .inputs = {{.extents = {6, 5, 3, 40}}}}),
            1);
}

TEST(ExactReduceTactics, LeavesRowsToTheVectors) {
  EXPECT_TRUE(refusals(exact_reduce_tactics(), {.op = Reduce{.kind = ReduceKind::Sum, .axes = Ints{-1}},
                                                .inputs = {{.extents = {3, 8}}}})
                  .empty());
}

}  // namespace
}  // namespace lathe::cpu
