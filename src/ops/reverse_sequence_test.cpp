// SPDX-License-Identifier: Apache-2.0
#include "ops/op_test.h"

namespace lathe {
namespace {

std::vector<Tensor> reversed(const ReverseSequence& op, const Extents& extents,
                             std::vector<int64_t> lengths) {
  return run_op(op, {counting(extents), i64s(lengths)});
}

TEST(ReverseSequenceOp, TurnsTheFirstStepsOfEachItem) {
  // time first: columns are items
  EXPECT_EQ(reversed({}, {3, 2}, {2, 3})[0].to_doubles(), (Numbers{2, 5, 0, 3, 4, 1}));
  // batch first, and rows of two elements
  EXPECT_EQ(reversed({.batch_axis = 0, .time_axis = 1}, {2, 3, 2}, {3, 1})[0].to_doubles(),
            (Numbers{4, 5, 2, 3, 0, 1, 6, 7, 8, 9, 10, 11}));
  // axes that are no neighbours, counted from the end
  EXPECT_EQ(reversed({.batch_axis = 0, .time_axis = -1}, {1, 2, 3}, {2})[0].to_doubles(),
            (Numbers{1, 0, 2, 4, 3, 5}));
  EXPECT_EQ(reversed({}, {2, 2}, {0, 1})[0].to_doubles(), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(reversed({}, {0, 2}, {0, 0})[0].extents(), (Extents{0, 2}));
}

TEST(ReverseSequenceOp, SymbolicShapesAndErrors) {
  const Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq");
  const auto infer = [&](const ReverseSequence& op, const Shape& shape, DType lengths = DType::Int64) {
    return infer_values(op, {typed(DType::Float32, shape), typed(lengths, {batch})})[0].shape;
  };
  EXPECT_EQ(infer({}, {seq, batch}), (Shape{seq, batch}));
  expect_says(input_error([&] { infer({}, {seq}); }), "at least two dims");
  expect_says(input_error([&] { infer({.batch_axis = 1, .time_axis = -1}, {seq, batch}); }), "are both 1");
  expect_says(input_error([&] { infer({.batch_axis = 2}, {seq, batch}); }), "batch_axis");
  expect_says(input_error([&] { infer({}, {seq, batch}, DType::Int32); }), "must be int64");
  expect_says(input_error([] {
                infer_values(ReverseSequence{}, {typed(DType::Float32, {3, 2}), typed(DType::Int64, {5})});
              }),
              "the shape of the lengths is [5], expected [2]");
  expect_says(input_error([] { reversed({}, {3, 2}, {1}); }), "one for each of the 2 items");
  expect_says(input_error([] { reversed({}, {3, 2}, {4, 0}); }), "a length of 4");
  expect_says(input_error([] { reversed({}, {3, 2}, {-1, 0}); }), "a length of -1");
}

}  // namespace
}  // namespace lathe
