// SPDX-License-Identifier: Apache-2.0
#include "ops/op_test.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

TEST(ResolveReshape, CopiesAndInfers) {
  EXPECT_EQ(resolve_reshape({2, 3, 4}, {0, -1}, false), (Shape{2, 12}));
  EXPECT_EQ(resolve_reshape({2, 3, 4}, {24}, false), (Shape{24}));
  EXPECT_EQ(resolve_reshape({}, {1, 1}, false), (Shape{1, 1}));
  EXPECT_EQ(resolve_reshape({0, 3}, {3, 0}, true), (Shape{3, 0}));
}

TEST(ResolveReshape, WorksOnSymbols) {
  EXPECT_EQ(resolve_reshape({kBatch, kSeq, 768}, {kBatch, kSeq, 12, 64}, false),
            (Shape{kBatch, kSeq, 12, 64}));
  EXPECT_EQ(resolve_reshape({kBatch, kSeq, 768}, {0, 0, 12, -1}, false), (Shape{kBatch, kSeq, 12, 64}));
  EXPECT_EQ(resolve_reshape({kBatch, 512, 7, 7}, {kBatch, -1}, false), (Shape{kBatch, 25088}));
  EXPECT_EQ(resolve_reshape({kBatch, 12, kSeq, 64}, {-1, kSeq, 64}, false),
            (Shape{kBatch * Dim(12), kSeq, 64}));
  EXPECT_EQ(resolve_reshape({kBatch * Dim(12), 64}, {-1, 768}, false), (Shape{kBatch, 768}));
}

TEST(ResolveReshape, RefusesWhatDoesNotFit) {
  expect_says(input_error([] { resolve_reshape({2, 3}, {4, -1}, false); }), "6 elements do not divide by 4");
  expect_says(input_error([] { resolve_reshape({2, 3}, {-1, -1}, false); }), "only one dim may be -1");
  expect_says(input_error([] { resolve_reshape({2, 3}, {2, -3}, false); }), "a dim is negative");
  expect_says(input_error([] { resolve_reshape({6}, {6, 0}, false); }), "0 copies a dim");
  expect_says(input_error([] { resolve_reshape({2, 3}, {7}, false); }), "6 elements do not become 7");
  expect_says(input_error([] { resolve_reshape({0, 3}, {0, -1}, true); }), "exclude each other");
  expect_says(input_error([] { resolve_reshape({2, 3}, {0, 0, 0, -1}, false); }), "0 copies a dim");
}

TEST(ReshapeOp, SharesBytesAndResolvesItsInput) {
  const Tensor x = counting({2, 3, 4});
  const Tensor y = run_op(ReshapeOp{}, {x, i64s({0, -1, 2})})[0];
  EXPECT_EQ(y.extents(), (Extents{2, 6, 2}));
  EXPECT_EQ(y.bytes().data(), x.bytes().data());
  EXPECT_EQ(run_op(ReshapeOp{Shape{kBatch, 4}}, {x}, 1, {{"batch", 6}})[0].extents(), (Extents{6, 4}));
  expect_says(input_error([&] {
                run_op(ReshapeOp{Shape{kBatch, 4}}, {x}, 1, {{"batch", 7}});
              }),
              "number of elements");
}

TEST(ReshapeOp, KeepsContents) {
  const auto result = infer_values(ReshapeOp{Shape{1}}, {shape_value({kBatch})})[0];
  ASSERT_TRUE(result.contents.has_value());
  EXPECT_EQ(*result.contents, (Shape{kBatch}));
}

TEST(ReshapeOp, UnknownShapeInputGivesDataDependentDims) {
  const auto result = infer_values(ReshapeOp{}, {typed(DType::Float32, {2, 3}), typed(DType::Int64, {2})})[0];
  ASSERT_EQ(result.shape.size(), 2u);
  EXPECT_EQ(result.shape[0].data_dependent_names(), (std::set<std::string>{"node.dim0"}));
  expect_says(input_error([] {
                infer_values(ReshapeOp{}, {typed(DType::Float32, {2, 3}), typed(DType::Int64, {kBatch})});
              }),
              "one-dimensional with a fixed length");
}

}  // namespace
}  // namespace lathe
