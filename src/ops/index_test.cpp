// SPDX-License-Identifier: Apache-2.0
//
// Slice, Gather*, Scatter*, Trilu, OneHot: operators that choose by position.
#include "ops/index.h"

#include "ops/op_test.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

TEST(ClampSlice, FollowsTheSpecification) {
  for (int64_t dim = 0; dim <= 4; ++dim) {
    for (int64_t start = -6; start <= 6; ++start) {
      for (int64_t end = -6; end <= 6; ++end) {
        for (const int64_t step : {-3, -2, -1, 1, 2, 3}) {
          std::vector<int64_t> expected;
          const auto from_end = [&](int64_t at) { return at < 0 ? at + dim : at; };
          const auto clamp = [](int64_t at, int64_t low, int64_t high) {
            return std::min(std::max(at, low), high);
          };
          const int64_t first =
              step > 0 ? clamp(from_end(start), 0, dim) : clamp(from_end(start), 0, dim - 1);
          const int64_t last = step > 0 ? clamp(from_end(end), 0, dim) : clamp(from_end(end), -1, dim - 1);
          for (int64_t i = first; step > 0 ? i < last : i > last; i += step) expected.push_back(i);
          const SliceBounds bounds = clamp_slice(start, end, step, dim);
          ASSERT_EQ(bounds.length.value(), static_cast<int64_t>(expected.size()))
              << start << ":" << end << ":" << step << " of " << dim;
          if (!expected.empty()) {
            ASSERT_EQ(bounds.start.value(), expected[0]);
          }
        }
      }
    }
  }
}

TEST(ClampSlice, SymbolsOfAnySign) {
  const Dim back = Dim(0) - Dim::symbol("m"), either = Dim::symbol("m") - Dim(3);
  for (int64_t m = 0; m < 9; ++m)
    for (int64_t dim = 0; dim < 6; ++dim)
      for (const Dim& start : {back, either}) {
        const SliceBounds bounds = clamp_slice(start, INT64_MAX, 1, kSeq);
        const SymbolValues values{{"m", m}, {"seq", dim}};
        const SliceBounds expected = clamp_slice(start.evaluate(values), INT64_MAX, 1, dim);
        EXPECT_EQ(bounds.length.evaluate(values), expected.length.value()) << m << " of " << dim;
      }
}

TEST(ClampSlice, SymbolsStayExact) {
  EXPECT_EQ(clamp_slice(0, INT64_MAX, 1, kSeq).length, kSeq);
  EXPECT_EQ(clamp_slice(0, INT32_MAX, 1, kSeq).length, kSeq);
  EXPECT_EQ(clamp_slice(0, kSeq, 1, kSeq).length, kSeq);
  EXPECT_EQ(clamp_slice(0, kSeq, 1, kSeq + Dim(3)).length, kSeq);
  EXPECT_EQ(clamp_slice(0, 4, 1, kSeq).length, min(Dim(4), kSeq));
  EXPECT_EQ(clamp_slice(-1, INT64_MAX, 1, kSeq).length.evaluate({{"seq", 7}}), 1);
  EXPECT_EQ(clamp_slice(-1, INT64_MAX, 1, kSeq).length.evaluate({{"seq", 0}}), 0);
  EXPECT_EQ(clamp_slice(-1, INT64_MIN, -1, kSeq).length.evaluate({{"seq", 7}}), 7);
}

TEST(SliceOp, InputsAndAttributes) {
  const Tensor x = counting({3, 4});
  EXPECT_EQ(run_op(Slice{}, {x, i64s({1, 0}), i64s({3, 3}), i64s({0, 1}), i64s({1, 2})})[0].to_doubles(),
            (Numbers{4, 6, 8, 10}));
  EXPECT_EQ(run_op(Slice{}, {x, i64s({-1}), i64s({-10}), i64s({-1}), i64s({-2})})[0].to_doubles(),
            (Numbers{3, 1, 7, 5, 11, 9}));
  EXPECT_EQ(run_op(Slice{Shape{2}, Shape{-1}, {0}, {-1}}, {x})[0].to_doubles()[0], 8);
  EXPECT_EQ(run_op(Slice{Shape{2}, Shape{-1}, {0}, {-1}}, {x})[0].extents(), (Extents{3, 4}));
  EXPECT_EQ(run_op(Slice{}, {x, i64s({2}), i64s({1})})[0].extents(), (Extents{0, 4}));
}

TEST(SliceOp, ContentsAndUnknownBounds) {
  const auto one = infer_values(Slice{Shape{0}, Shape{1}, {0}, {1}}, {shape_value({kBatch, kSeq})})[0];
  ASSERT_TRUE(one.contents.has_value());
  EXPECT_EQ(*one.contents, (Shape{kBatch}));
  const auto unknown = infer_values(Slice{}, {typed(DType::Float32, {4, kSeq}), typed(DType::Int64, {1}),
                                              typed(DType::Int64, {1}), known(i64s({1}))});
  EXPECT_EQ(unknown[0].shape[0], Dim(4));
  EXPECT_EQ(unknown[0].shape[1].data_dependent_names(), (std::set<std::string>{"node.dim1"}));
}

TEST(SliceOp, Errors) {
  const Tensor x = counting({3, 4});
  expect_says(input_error([&] {
                run_op(Slice{}, {x, i64s({0}), i64s({1}), i64s({0}), i64s({0})});
              }),
              "the step of axis 0 is 0");
  expect_says(input_error([&] {
                run_op(Slice{}, {x, i64s({0, 0}), i64s({1})});
              }),
              "must have the same number");
  expect_says(input_error([&] {
                run_op(Slice{}, {x, i64s({0}), i64s({1}), i64s({2})});
              }),
              "axis 2 is outside");
  expect_says(input_error([&] {
                run_op(Slice{}, {x, i64s({0, 0}), i64s({1, 1}), i64s({0, -2})});
              }),
              "sliced twice");
  // An empty dim has no element to begin with, backwards too.
  const Slice backwards{
      .starts = to_shape(Extents{0}), .ends = to_shape(Extents{-1}), .axes = {0}, .steps = {-1}};
  expect_says(input_error([&] { infer_values(backwards, {typed(DType::Float32, {Dim(0)})}); }),
              "lie outside of axis 0");
}

TEST(GatherOp, AxesNegativesAndContents) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(run_op(Gather{1}, {x, Tensor::from<int64_t>({1, 2}, {-1, 0})})[0].to_doubles(),
            (Numbers{2, 0, 5, 3}));
  EXPECT_EQ(run_op(Gather{0}, {x, Tensor::scalar_i64(1)})[0].extents(), (Extents{3}));
  const auto seq = infer_values(Gather{0}, {shape_value({kBatch, kSeq}), known(Tensor::scalar_i64(1))})[0];
  ASSERT_TRUE(seq.contents.has_value());
  EXPECT_EQ(*seq.contents, (Shape{kSeq}));
  EXPECT_TRUE(seq.shape.empty());
}

TEST(GatherOp, Errors) {
  const Tensor x = counting({2, 3});
  expect_says(input_error([&] { run_op(Gather{0}, {x, i64s({2})}); }), "index 2 is outside [-2, 1]");
  expect_says(input_error([&] { run_op(Gather{0}, {x, i64s({-3})}); }), "index -3");
  expect_says(input_error([&] { run_op(Gather{0}, {x, i64s({INT64_MIN})}); }), "is outside");
  expect_says(input_error([&] {
                infer_values(Gather{0}, {known(x), known(f32s({1}, {0}))});
              }),
              "int32 or int64");
  expect_says(input_error([&] {
                infer_values(Gather{0}, {known(Tensor::scalar_f32(1)), known(i64s({0}))});
              }),
              "axis 0");
  expect_says(input_error([&] { run_op(Gather{0}, {counting({0, 3}), i64s({0})}); }), "index 0 is outside");
}

TEST(GatherElementsOp, PicksAndChecks) {
  const Tensor x = counting({3, 3});
  EXPECT_EQ(
      run_op(GatherElements{0}, {x, Tensor::from<int64_t>({2, 3}, {1, 2, 0, 2, -3, 0})})[0].to_doubles(),
      (Numbers{3, 7, 2, 6, 1, 2}));
  expect_says(input_error([&] {
                run_op(GatherElements{0}, {x, Tensor::from<int64_t>({1, 4}, {0, 0, 0, 0})});
              }),
              "no dim but that of axis 0 larger");
}

TEST(GatherNDOp, BlocksAndBatches) {
  const Tensor x = counting({2, 2, 2});
  EXPECT_EQ(run_op(GatherND{0}, {x, Tensor::from<int64_t>({2, 2}, {0, 1, 1, -2})})[0].to_doubles(),
            (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(run_op(GatherND{1}, {x, Tensor::from<int64_t>({2, 1}, {1, 0})})[0].to_doubles(),
            (Numbers{2, 3, 4, 5}));
  expect_says(input_error([&] {
                run_op(GatherND{0}, {x, Tensor::from<int64_t>({1, 4}, {0, 0, 0, 0})});
              }),
              "an address of 4");
  expect_says(input_error([&] {
                run_op(GatherND{3}, {x, Tensor::from<int64_t>({1, 1}, {0})});
              }),
              "batch_dims = 3");
  expect_says(input_error([&] {
                run_op(GatherND{0}, {x, Tensor::from<int64_t>({1, 1}, {2})});
              }),
              "index 2 is outside");
}

TEST(ScatterElementsOp, ReplacesAndReduces) {
  const Tensor x = f32s({1, 5}, {1, 2, 3, 4, 5});
  const Tensor at = Tensor::from<int64_t>({1, 2}, {1, 1}), updates = f32s({1, 2}, {1.5, 2.5});
  const auto with = [&](ScatterReduction reduction) {
    return run_op(ScatterElements{1, reduction}, {x, at, updates})[0].to_doubles()[1];
  };
  EXPECT_EQ(with(ScatterReduction::None), 2.5);
  EXPECT_EQ(with(ScatterReduction::Add), 6);
  EXPECT_EQ(with(ScatterReduction::Mul), 7.5);
  EXPECT_EQ(with(ScatterReduction::Min), 1.5);
  EXPECT_EQ(with(ScatterReduction::Max), 2.5);
  EXPECT_EQ(x.to_doubles()[1], 2);  // the input is not touched
}

TEST(ScatterElementsOp, Errors) {
  const Tensor x = counting({3}), at = i64s({0});
  expect_says(input_error([&] { run_op(ScatterElements{}, {x, at, counting({2})}); }), "same shape");
  expect_says(input_error([&] {
                infer_values(ScatterElements{}, {known(x), known(at), known(f32s({1}, {1}))});
              }),
              "they must be equal");
  expect_says(input_error([&] {
                run_op(ScatterElements{}, {x, i64s({3}), counting({1})});
              }),
              "index 3 is outside");
  const Tensor flags = Tensor::from_doubles(DType::Bool, {1}, Numbers{1});
  expect_says(
      input_error([&] {
        infer_values(ScatterElements{0, ScatterReduction::Add}, {known(flags), known(at), known(flags)});
      }),
      "not defined for bool");
}

TEST(ScatterNDOp, BlocksAndErrors) {
  const Tensor x = counting({3, 2});
  EXPECT_EQ(run_op(ScatterND{}, {x, Tensor::from<int64_t>({1, 1}, {-1}), counting({1, 2})})[0].to_doubles(),
            (Numbers{0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(run_op(ScatterND{ScatterReduction::Add},
                   {x, Tensor::from<int64_t>({2, 1}, {0, 0}), counting({2, 2})})[0]
                .to_doubles(),
            (Numbers{2, 5, 2, 3, 4, 5}));
  expect_says(input_error([&] {
                run_op(ScatterND{}, {x, Tensor::from<int64_t>({1, 1}, {0}), counting({2, 2})});
              }),
              "expected 1x2");
  expect_says(input_error([&] {
                infer_values(ScatterND{},
                             {known(x), known(Tensor::from<int64_t>({1, 1}, {0})), known(counting({2}))});
              }),
              "expected [1, 2]");
}

TEST(TriluOp, KeepsASide) {
  const Tensor x = counting({3, 3});
  EXPECT_EQ(run_op(Trilu{true}, {x})[0].to_doubles(), (Numbers{0, 1, 2, 0, 4, 5, 0, 0, 8}));
  EXPECT_EQ(run_op(Trilu{false}, {x, Tensor::scalar_i64(-1)})[0].to_doubles(),
            (Numbers{0, 0, 0, 3, 0, 0, 6, 7, 0}));
  EXPECT_EQ(run_op(Trilu{true}, {x, Tensor::scalar_i64(INT64_MIN)})[0].to_doubles(), x.to_doubles());
  EXPECT_EQ(run_op(Trilu{true}, {x, Tensor::scalar_i64(INT64_MAX)})[0].to_doubles(), Numbers(9, 0));
  expect_says(input_error([] {
                run_op(Trilu{}, {counting({3, 3}), i64s({1, 2})});
              }),
              "k must have one element");
  expect_says(input_error([] { infer_values(Trilu{}, {typed(DType::Float32, {3})}); }), "at least two dims");
  const auto infer_k = [](DType dtype, const Shape& shape) {
    return input_error([&] { infer_values(Trilu{}, {typed(DType::Float32, {3, 3}), typed(dtype, shape)}); });
  };
  expect_says(infer_k(DType::Int64, {Dim(0)}), "k must have 1 element");
  expect_says(infer_k(DType::Int32, {}), "the type of k is int32");
}

TEST(OneHotOp, AxesAndOutOfRange) {
  const Tensor depth = Tensor::scalar_i64(3), values = f32s({2}, {-1, 7});
  EXPECT_EQ(run_op(OneHot{-1}, {i64s({1, -1, 5}), depth, values})[0].to_doubles(),
            (Numbers{-1, 7, -1, -1, -1, 7, -1, -1, -1}));
  EXPECT_EQ(run_op(OneHot{0}, {i64s({1, 0}), depth, values})[0].to_doubles(),
            (Numbers{-1, 7, 7, -1, -1, -1}));
  expect_says(input_error([&] {
                run_op(OneHot{}, {i64s({1}), Tensor::scalar_i64(-1), values});
              }),
              "negative");
  expect_says(input_error([&] { run_op(OneHot{}, {i64s({1}), depth, f32s({1}, {1})}); }), "two elements");
  expect_says(input_error([&] {
                run_op(OneHot{}, {i64s({1}), i64s({1, 2}), values});
              }),
              "depth must have one");
  const auto infer_with = [](const Shape& depth_shape, const Shape& values_shape) {
    return input_error([&] {
      infer_values(OneHot{-1}, {typed(DType::Int64, {kBatch}), typed(DType::Int64, depth_shape),
                                typed(DType::Float32, values_shape)});
    });
  };
  expect_says(infer_with({}, {1}), "must have 2 elements; the shape is [1]");
  expect_says(infer_with({Dim(0)}, {2}), "depth must have 1 element; the shape is [0]");
  const auto unknown =
      infer_values(OneHot{-1}, {typed(DType::Int64, {kBatch}), typed(DType::Int64, {}), known(values)});
  EXPECT_FALSE(unknown[0].shape[1].data_dependent_names().empty());
}

}  // namespace
}  // namespace lathe
