// SPDX-License-Identifier: Apache-2.0
//
// CumSum, TopK, ArgReduce, NonZero, NonMaxSuppression, and values from shapes.
#include <cmath>

#include "ops/op_test.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

TEST(CumSumOp, AllFourWays) {
  const Tensor x = counting({4}), axis = Tensor::scalar_i64(0);
  const auto sums = [&](bool exclusive, bool reverse) {
    return run_op(CumSum{exclusive, reverse}, {x, axis})[0].to_doubles();
  };
  EXPECT_EQ(sums(false, false), (Numbers{0, 1, 3, 6}));
  EXPECT_EQ(sums(true, false), (Numbers{0, 0, 1, 3}));
  EXPECT_EQ(sums(false, true), (Numbers{6, 6, 5, 3}));
  EXPECT_EQ(sums(true, true), (Numbers{6, 5, 3, 0}));
}

TEST(CumSumOp, AxesTypesAndErrors) {
  EXPECT_EQ(run_op(CumSum{}, {counting({2, 3}), Tensor::scalar_i64(-2)})[0].to_doubles(),
            (Numbers{0, 1, 2, 3, 5, 7}));
  const Tensor tiny = Tensor::from<int8_t>({2}, {100, 100});
  EXPECT_EQ(run_op(CumSum{}, {tiny, Tensor::scalar_i64(0)})[0].to_doubles()[1],
            -56);  // wraps as ONNX's types do
  expect_says(input_error([&] { run_op(CumSum{}, {tiny, Tensor::scalar_i64(1)}); }), "axis 1 is outside");
  expect_says(input_error([&] { run_op(CumSum{}, {tiny, i64s({0, 0})}); }), "one element");
  expect_says(input_error([] {
                infer_values(CumSum{}, {typed(DType::Bool, {2}), known(Tensor::scalar_i64(0))});
              }),
              "sums of bool");
}

TEST(TopKOp, OrderTiesAndNaN) {
  const Tensor x = f32s({6}, {3, NAN, 5, 3, 5, -1});
  auto top = run_op(TopK{}, {x, i64s({4})}, 2);
  EXPECT_EQ(top[1].to_int64s(), (std::vector<int64_t>{1, 2, 4, 0}));
  top = run_op(TopK{-1, false}, {x, i64s({3})}, 2);
  EXPECT_EQ(top[1].to_int64s(), (std::vector<int64_t>{5, 0, 3}));
  EXPECT_EQ(top[0].to_doubles(), (Numbers{-1, 3, 3}));
}

TEST(TopKOp, AxesAndErrors) {
  const auto top = run_op(TopK{0}, {counting({3, 2}), i64s({2})}, 2);
  EXPECT_EQ(top[0].to_doubles(), (Numbers{4, 5, 2, 3}));
  EXPECT_EQ(run_op(TopK{0}, {counting({3, 2}), i64s({0})}, 2)[0].extents(), (Extents{0, 2}));
  expect_says(input_error([] {
                run_op(TopK{0}, {counting({3}), i64s({4})}, 2);
              }),
              "k = 4 is not between 0 and the 3");
  expect_says(input_error([] {
                infer_values(TopK{0}, {typed(DType::Float32, {3}), known(i64s({-1}))}, 2);
              }),
              "k = -1");
  expect_says(input_error([] {
                run_op(TopK{0}, {counting({3}), i64s({1, 1})}, 2);
              }),
              "k must have one element");
  expect_says(input_error([] {
                infer_values(TopK{0}, {typed(DType::Bool, {3}), known(i64s({1}))}, 2);
              }),
              "not defined");
  const auto unknown = infer_values(TopK{0}, {typed(DType::Float32, {3, kSeq}), typed(DType::Int64, {1})}, 2);
  EXPECT_EQ(unknown[0].shape[0].bounds({}).high, 3);
}

TEST(ArgReduceOp, TiesNaNAndDims) {
  const Tensor x = f32s({2, 3}, {2, 7, 7, NAN, 9, 1});
  EXPECT_EQ(run_op(ArgReduce{true, 1}, {x})[0].to_int64s(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(run_op(ArgReduce{true, 1, false, true}, {x})[0].to_int64s(), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(run_op(ArgReduce{false, 1}, {x})[0].to_int64s(), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(run_op(ArgReduce{false, 0, false}, {x})[0].extents(), (Extents{3}));
  expect_says(input_error([] {
                run_op(ArgReduce{true, 0}, {counting({0, 3})});
              }),
              "no elements to choose from");
  EXPECT_EQ(run_op(ArgReduce{true, 0}, {counting({0, 0})})[0].extents(), (Extents{1, 0}));
}

TEST(NonZeroOp, PositionsAndBound) {
  const Tensor x = f32s({2, 3}, {0, 1, 0, NAN, 0, -2});
  const Tensor found = run_op(NonZero{}, {x})[0];
  EXPECT_EQ(found.extents(), (Extents{2, 3}));
  EXPECT_EQ(found.to_int64s(), (std::vector<int64_t>{0, 1, 1, 1, 0, 2}));
  const auto info = infer_values(NonZero{}, {typed(DType::Float32, {kBatch, 4})})[0];
  EXPECT_EQ(info.shape[0], Dim(2));
  EXPECT_EQ(info.shape[1].bounds({{"batch", {1, 2, 3}}}).high, 12);
  EXPECT_EQ(run_op(NonZero{}, {Tensor::scalar_f32(1)})[0].extents(), (Extents{0, 1}));
}

std::vector<int64_t> suppressed(const NonMaxSuppression& op, const Tensor& boxes, const Tensor& scores,
                                int64_t most, float iou, std::optional<float> score = std::nullopt) {
  return run_op(op,
                {boxes, scores, i64s({most}), f32s({1}, {iou}), score ? f32s({1}, {*score}) : Tensor()})[0]
      .to_int64s();
}

TEST(NonMaxSuppressionOp, SuppressesOverlaps) {
  const Tensor boxes = f32s({1, 4, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 10, 1, 11, 1, 11, 0, 10});
  const Tensor scores = f32s({1, 1, 4}, {0.9f, 0.75f, 0.6f, 0.6f});
  const NonMaxSuppression op;
  EXPECT_EQ(suppressed(op, boxes, scores, 3, 0.5f), (std::vector<int64_t>{0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(suppressed(op, boxes, scores, 1, 0.5f), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(suppressed(op, boxes, scores, 3, 0.5f, 0.7f), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(suppressed(op, boxes, scores, 0, 0.5f).size(), 0u);
  EXPECT_EQ(suppressed(op, boxes, scores, 9, 1).size(), 12u);  // nothing overlaps by more than 1
  EXPECT_EQ(run_op(op, {boxes, scores})[0].extents(), (Extents{0, 3}));
}

TEST(NonMaxSuppressionOp, CenterBoxesClassesAndErrors) {
  const Tensor boxes = f32s({1, 2, 4}, {0.5f, 0.5f, 1, 1, 0.5f, 0.6f, 1, 1});
  const Tensor scores = f32s({1, 2, 2}, {0.1f, 0.2f, 0.4f, 0.3f});
  EXPECT_EQ(suppressed(NonMaxSuppression{true}, boxes, scores, 5, 0.5f),
            (std::vector<int64_t>{0, 0, 1, 0, 1, 0}));
  expect_says(input_error([&] { suppressed({}, boxes, scores, 5, 1.5f); }), "not between 0 and 1");
  expect_says(input_error([&] {
                suppressed({}, boxes, f32s({1, 1, 1}, {1}), 5, 1);
              }),
              "do not fit to scores");
  expect_says(input_error([&] {
                infer_values(NonMaxSuppression{}, {known(scores), known(scores)});
              }),
              "boxes must have shape");
}

TEST(Shapes, TensorsOfDims) {
  const ShapeTensor op{{kBatch, 3}, false};
  EXPECT_EQ(run_op(op, {}, 1, {{"batch", 5}})[0].to_int64s(), (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(*infer_values(op, {})[0].contents, (Shape{kBatch, 3}));
  EXPECT_EQ(run_op(ShapeTensor{{7}, true}, {})[0].rank(), 0);
  expect_says(input_error([] { infer_values(ShapeTensor{{1, 2}, true}, {}); }), "exactly one dim");
  expect_says(input_error([&] { run_op(op, {}); }), "batch");
}

TEST(Shapes, ShapeOfClampsItsRange) {
  const Tensor x = counting({2, 3, 4});
  const auto dims = [&](int64_t start, std::optional<Ints> end) {
    return run_op(ShapeOf{start, end}, {x})[0].to_int64s();
  };
  EXPECT_EQ(dims(0, std::nullopt), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(dims(-1, std::nullopt), (std::vector<int64_t>{4}));
  EXPECT_EQ(dims(-10, Ints{-1}), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(dims(2, Ints{1}), (std::vector<int64_t>{}));
  EXPECT_EQ(dims(1, Ints{99}), (std::vector<int64_t>{3, 4}));
}

TEST(RangeOp, NumbersAndDims) {
  const auto range = [](int64_t a, int64_t b, int64_t c) {
    return run_op(Range{}, {Tensor::scalar_i64(a), Tensor::scalar_i64(b), Tensor::scalar_i64(c)})[0]
        .to_int64s();
  };
  EXPECT_EQ(range(3, 9, 3), (std::vector<int64_t>{3, 6}));
  EXPECT_EQ(range(10, 4, -2), (std::vector<int64_t>{10, 8, 6}));
  EXPECT_EQ(range(4, 4, 1), (std::vector<int64_t>{}));
  const auto floats =
      run_op(Range{}, {Tensor::scalar_f32(1), Tensor::scalar_f32(2), Tensor::scalar_f32(0.4f)})[0]
          .to_doubles();
  EXPECT_EQ(floats.size(), 3u);
  Value limit = shape_value({kSeq});
  limit.shape = {};
  const auto info =
      infer_values(Range{}, {known(Tensor::scalar_i64(0)), limit, known(Tensor::scalar_i64(1))});
  EXPECT_EQ(info[0].shape, (Shape{kSeq}));
}

TEST(RangeOp, Errors) {
  const Tensor zero = Tensor::scalar_i64(0), one = Tensor::scalar_i64(1);
  const Tensor many = Tensor::scalar_i64(int64_t{1} << 31);
  expect_says(input_error([&] {
                infer_values(Range{}, {known(zero), known(many), known(one)});
              }),
              "a range of 2147483648 elements is not supported");
  // Its length is known without its elements, which nobody has room for.
  const Tensor most = Tensor::scalar_i64((int64_t{1} << 31) - 1);
  EXPECT_EQ(infer_values(Range{}, {known(zero), known(most), known(one)})[0].shape,
            (Shape{(int64_t{1} << 31) - 1}));
  expect_says(input_error([&] { run_op(Range{}, {zero, one, zero}); }), "step of a range is 0");
  expect_says(input_error([&] { run_op(Range{}, {zero, Tensor::scalar_f32(1), one}); }), "one number type");
  expect_says(input_error([&] {
                run_op(Range{}, {zero, Tensor::scalar_i64(int64_t{1} << 40), one});
              }),
              "not supported");
  expect_says(input_error([&] { run_op(Range{}, {zero, i64s({1, 2}), one}); }), "one element each");
  expect_says(input_error([&] { run_op(Range{}, {zero, one, Tensor::scalar_i64(INT64_MIN)}); }), "too large");
  const Tensor nothing = Tensor::scalar_f32(0);
  expect_says(input_error([&] { run_op(Range{}, {nothing, nothing, nothing}); }), "0 or not a number");
}

TEST(FillOp, ShapesValuesAndErrors) {
  EXPECT_EQ(run_op(Fill{std::nullopt, DType::Float32, 1.5}, {i64s({2, 2})})[0].to_doubles(), Numbers(4, 1.5));
  EXPECT_EQ(run_op(Fill{Shape{kBatch}, DType::Int64, -1}, {}, 1, {{"batch", 3}})[0].to_int64s(),
            std::vector<int64_t>(3, -1));
  EXPECT_EQ(run_op(Fill{std::nullopt, DType::Bool, 1}, {i64s({})})[0].to_doubles(), (Numbers{1}));
  EXPECT_EQ(run_op(Fill{Shape{10001}, DType::Float16, 2}, {})[0].to_doubles(), Numbers(10001, 2));
  expect_says(input_error([] { infer_values(Fill{Shape{-1}, DType::Float32, 0}, {}); }), "is negative");
  expect_says(input_error([] { run_op(Fill{}, {i64s({int64_t{1} << 50})}); }), "does not fit");
}

}  // namespace
}  // namespace lathe
