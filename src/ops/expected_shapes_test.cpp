// SPDX-License-Identifier: Apache-2.0
#include "ops/expected_shapes.h"

#include "ops/op_test.h"

namespace lathe {
namespace {

// A constant that is no integer must not pass for one that only a run knows: no layer would say its value.
TEST(KnownIntegers, NumbersOfAnotherTypeAreRefused) {
  const Value x = typed(DType::Float32, {1, 4, 6});
  const Value one = known(Tensor::from<double>({1}, {2})),
              three = known(Tensor::from<double>({3}, {1, 1, 1}));
  const Value six = known(Tensor::from<double>({6}, {0, 0, 0, 0, 0, 0}));
  const Value ints = known(i64s({1})), absent = {};
  const auto refused = [](const Op& op, const std::vector<Value>& values, const std::string& what) {
    expect_says(input_error([&] { infer_values(op, values); }),
                what + " must be integers (ONNX: int64), the type is float64");
  };
  refused(ReshapeOp{}, {x, three}, "the shape");
  refused(Expand{}, {x, three}, "the shape");
  refused(Fill{.dtype = DType::Float32}, {three}, "the shape");
  refused(Tile{}, {x, three}, "the repeats");
  refused(Pad{}, {x, six}, "the pads");
  refused(Pad{}, {x, known(i64s({0, 0})), absent, one}, "the axes");
  refused(Resize{}, {x, absent, absent, three}, "the sizes");
  refused(TopK{}, {x, one}, "k");
  refused(CumSum{}, {x, one}, "the axis");
  refused(Slice{}, {x, one, ints}, "a start");
  refused(Slice{}, {x, ints, one}, "an end");
  refused(Slice{}, {x, ints, ints, one}, "an axis or a step");
  refused(NonMaxSuppression{}, {typed(DType::Float32, {1, 3, 4}), typed(DType::Float32, {1, 2, 3}), one},
          "the most boxes of a class");
  refused(DFT{}, {typed(DType::Float32, {1, 8, 1}), one}, "the length");
  refused(DFT{}, {typed(DType::Float32, {1, 8, 1}), absent, one}, "the axis");
  refused(STFT{}, {typed(DType::Float32, {1, 8, 1}), one}, "the step");
  refused(STFT{}, {typed(DType::Float32, {1, 8, 1}), ints, absent, one}, "the frame length");
}

// Checked again when shapes are known: what a run finds may be no element at all, which nothing may read.
TEST(ExpectElements, OneNumberIsOneNumber) {
  const Value x = typed(DType::Float32, {1, 4, 6}), none = typed(DType::Int64, {2, 0});
  const auto refused = [](const Op& op, const std::vector<Value>& values, const std::string& what) {
    expect_says(input_error([&] { infer_values(op, values); }), what + " must have 1 element");
  };
  refused(TopK{}, {x, none}, "k");
  refused(CumSum{}, {x, none}, "the axis");
  refused(Pad{}, {x, known(i64s({0, 0, 0, 0, 0, 0})), typed(DType::Float32, {0})}, "the value");
  refused(Range{}, {none, none, none}, "start, limit and delta");
  refused(NonMaxSuppression{}, {typed(DType::Float32, {1, 3, 4}), typed(DType::Float32, {1, 2, 3}), none},
          "a limit");
}

// Kernels read as many as there are axes: a list whose length only a run finds is checked then.
TEST(ExpectList, AnEntryForEachAxis) {
  const Value x = typed(DType::Float32, {1, 4, 6}), two = typed(DType::Int64, {2}),
              n = typed(DType::Int64, {Dim::symbol("n")}), absent = {};
  const Value three = typed(DType::Int64, {3}), rows = typed(DType::Int64, {Dim::symbol("n"), 0});
  const auto refused = [](const Op& op, const std::vector<Value>& values, const std::string& what) {
    expect_says(input_error([&] { infer_values(op, values); }), what);
  };
  infer_values(Slice{}, {x, two, n, n, n});
  refused(Slice{}, {x, two, rows}, "the ends must be one-dimensional with 2 entries; the shape is [n, 0]");
  refused(Slice{}, {x, two, three}, "the ends must be one-dimensional with 2 entries; the shape is [3]");
  refused(Slice{}, {x, two, two, three}, "the axes must be one-dimensional with 2 entries");
  refused(Slice{}, {x, two, two, two, three}, "the steps must be one-dimensional with 2 entries");
  infer_values(Tile{}, {x, n});
  refused(Tile{}, {x, two}, "the repeats must be one-dimensional with 3 entries; the shape is [2]");
  infer_values(Pad{}, {x, n});
  refused(Pad{}, {x, two}, "the pads must have 6 elements; the shape is [2]");
  refused(Pad{}, {x, three, absent, known(i64s({0, 2}))}, "the pads must have 4 elements; the shape is [3]");
}

}  // namespace
}  // namespace lathe
