// SPDX-License-Identifier: Apache-2.0
//
// Transpose, DepthToSpace, Expand, Tile, Concat, Split, Slice and Pad.
#include "ops/movement.h"

#include "ops/op_test.h"

namespace lathe {
namespace {

// Every type that ONNX moves, by value.
TEST(Movement, AnyElementType) {
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.dtype == DType::Undefined) continue;
    const Numbers wanted = info.dtype == DType::Bool ? Numbers{1, 0, 0, 1, 1, 0} : Numbers{0, 1, 2, 3, 4, 5};
    const Tensor x = Tensor::from_doubles(info.dtype, {2, 3}, wanted);
    const std::vector<double> values = x.to_doubles();  // types of two bits or without a zero hold others
    const Tensor y = run_op(Transpose{{1, 0}}, {x})[0];
    EXPECT_EQ(y.to_doubles(), (Numbers{values[0], values[3], values[1], values[4], values[2], values[5]}))
        << info.name;
    EXPECT_EQ(run_op(Concat{0}, {x, x})[0].size(), 12);
    EXPECT_EQ(run_op(Tile{Shape{1, 2}}, {x})[0].to_doubles()[3], values[0]) << info.name;
    EXPECT_EQ(run_op(Slice{Shape{1}, Shape{2}, {1}, {1}}, {x})[0].to_doubles(),
              (Numbers{values[1], values[4]}));
    EXPECT_EQ(run_op(Pad{PadMode::Edge, Shape{0, 1, 0, 0}}, {x})[0].to_doubles()[1], values[0]);
  }
}

TEST(Movement, WorksInParallelPieces) {
  ThreadPool pool(3);
  const Tensor x = counting({37, 5, 211, 3});
  const Transpose op{{2, 0, 3, 1}};
  const Tensor one = run_op(op, {x})[0], many = run_op(op, {x}, 1, {}, &pool)[0];
  EXPECT_EQ(one.to_int64s(), many.to_int64s());
  EXPECT_EQ(one.data<int32_t>()[1], 211 * 3);  // the last dim of the result is the second of x
}

TEST(Transpose, RefusesWhatIsNoPermutation) {
  for (const Ints& perm : {Ints{0}, Ints{0, 0}, Ints{1, 2}, Ints{0, 1, 2}, Ints{-1, 0}}) {
    expect_says(input_error([&] {
                  infer_values(Transpose{perm}, {typed(DType::Float32, {2, 3})});
                }),
                "not a permutation");
  }
}

TEST(Transpose, ScalarAndEmpty) {
  EXPECT_EQ(run_op(Transpose{{}}, {Tensor::scalar_f32(5)})[0].to_doubles(), (Numbers{5}));
  EXPECT_EQ(run_op(Transpose{{1, 0}}, {counting({0, 3})})[0].extents(), (Extents{3, 0}));
}

TEST(DepthToSpace, BothOrdersAndBack) {
  const Tensor x = counting({1, 8, 1, 2});
  const DepthToSpace dcr{2, false, false}, crd{2, true, false};
  EXPECT_EQ(run_op(dcr, {x})[0].to_doubles(),
            (Numbers{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15}));
  EXPECT_EQ(run_op(crd, {x})[0].to_doubles(),
            (Numbers{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}));
  for (const bool order : {false, true}) {
    const Tensor there = run_op(DepthToSpace{2, order, false}, {x})[0];
    EXPECT_EQ(run_op(DepthToSpace{2, order, true}, {there})[0].to_doubles(), x.to_doubles());
  }
}

TEST(DepthToSpace, Errors) {
  const auto error = [](DepthToSpace op, Shape shape) {
    return input_error([&] { infer_values(op, {typed(DType::Float32, std::move(shape))}); });
  };
  expect_says(error({0, false, false}, {1, 4, 2, 2}), "the block size is 0");
  expect_says(error({2, false, false}, {4, 2, 2}), "four dims");
  expect_says(error({2, false, false}, {1, 3, 2, 2}), "channels of 3 does not divide by 4");
  expect_says(error({2, false, true}, {1, 3, 3, 2}), "a height of 3 does not divide by 2");
}

TEST(Expand, Broadcasts) {
  EXPECT_EQ(run_op(Expand{}, {counting({3, 1}), i64s({2, 1, 2})})[0].to_doubles(),
            (Numbers{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(run_op(Expand{}, {counting({3, 1}), i64s({1})})[0].extents(), (Extents{3, 1}));
  EXPECT_EQ(run_op(Expand{Shape{kBatch, 2}}, {counting({2})}, 1, {{"batch", 3}})[0].extents(),
            (Extents{3, 2}));
  expect_says(input_error([] { run_op(Expand{}, {counting({3}), i64s({2})}); }), "do not broadcast");
  expect_says(input_error([] { run_op(Expand{}, {counting({1}), i64s({-2})}); }), "a dim is negative");
}

TEST(Expand, AbsurdSizesAreRefused) {
  expect_says(input_error([] {
                run_op(Expand{}, {counting({1}), i64s({int64_t{1} << 45})});
              }),
              "does not fit");
  input_error([] { run_op(Expand{}, {counting({1}), i64s({int64_t{1} << 45, int64_t{1} << 45})}); });
  input_error([] { run_op(Tile{}, {counting({4}), i64s({INT64_MAX})}); });
}

TEST(Tile, Repeats) {
  EXPECT_EQ(run_op(Tile{}, {counting({2, 2}), i64s({2, 1})})[0].to_doubles(),
            (Numbers{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(run_op(Tile{}, {counting({2, 2}), i64s({1, 2})})[0].to_doubles(),
            (Numbers{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(run_op(Tile{}, {counting({2}), i64s({0})})[0].extents(), (Extents{0}));
  expect_says(input_error([] { run_op(Tile{}, {counting({2}), i64s({1, 2})}); }), "one per dim");
  expect_says(input_error([] { run_op(Tile{}, {counting({2}), i64s({-1})}); }), "negative");
}

TEST(Concat, JoinsAndKeepsContents) {
  EXPECT_EQ(run_op(Concat{1}, {counting({2, 1}), counting({2, 2})})[0].to_doubles(),
            (Numbers{0, 0, 1, 1, 2, 3}));
  EXPECT_EQ(run_op(Concat{-1}, {counting({0}), counting({2})})[0].extents(), (Extents{2}));
  const auto shape = infer_values(Concat{0}, {shape_value({kBatch, kSeq}), known(i64s({12, 64}))})[0];
  ASSERT_TRUE(shape.contents.has_value());
  EXPECT_EQ(*shape.contents, (Shape{kBatch, kSeq, 12, 64}));
}

TEST(Concat, Errors) {
  const Value a = typed(DType::Float32, {2, 3});
  for (const Value& b :
       {typed(DType::Float32, {3, 3}), typed(DType::Int32, {2, 3}), typed(DType::Float32, {2})}) {
    expect_says(input_error([&] { infer_values(Concat{1}, {a, b}); }), "does not fit to input 0");
  }
  expect_says(input_error([&] { infer_values(Concat{2}, {a, a}); }), "axis 2 is outside");
  expect_says(input_error([&] {
                run_op(Concat{0}, {counting({1, 2}), counting({1, 3})});
              }),
              "the other dims differ");
}

TEST(Split, PartsAndErrors) {
  const auto parts = run_op(Split{1, {1, 0, 2}}, {counting({2, 3})}, 3);
  EXPECT_EQ(parts[0].to_doubles(), (Numbers{0, 3}));
  EXPECT_EQ(parts[1].extents(), (Extents{2, 0}));
  EXPECT_EQ(parts[2].to_doubles(), (Numbers{1, 2, 4, 5}));
  const Value x = typed(DType::Float32, {2, 3});
  expect_says(input_error([&] { infer_values(Split{1, {1, 1}}, {x}, 2); }), "sum up to 2");
  expect_says(input_error([&] { infer_values(Split{1, {4, -1}}, {x}, 2); }), "negative");
  expect_says(input_error([&] { infer_values(Split{1, {3}}, {x}, 2); }), "2 outputs but 1 parts");
  const auto contents = infer_values(Split{0, {1, 1}}, {shape_value({kBatch, kSeq})}, 2);
  EXPECT_EQ(*contents[1].contents, (Shape{kSeq}));
}

TEST(Pad, Modes) {
  const Tensor x = counting({1, 3});
  const Tensor pads = i64s({0, 2, 0, 2});
  const Tensor nine = Tensor::from<int32_t>({}, {9});
  EXPECT_EQ(run_op(Pad{PadMode::Constant}, {x, pads, nine})[0].to_doubles(), (Numbers{9, 9, 0, 1, 2, 9, 9}));
  EXPECT_EQ(run_op(Pad{PadMode::Constant}, {x, pads})[0].to_doubles(), (Numbers{0, 0, 0, 1, 2, 0, 0}));
  EXPECT_EQ(run_op(Pad{PadMode::Edge}, {x, pads})[0].to_doubles(), (Numbers{0, 0, 0, 1, 2, 2, 2}));
  EXPECT_EQ(run_op(Pad{PadMode::Reflect}, {x, pads})[0].to_doubles(), (Numbers{2, 1, 0, 1, 2, 1, 0}));
  EXPECT_EQ(run_op(Pad{PadMode::Wrap}, {x, pads})[0].to_doubles(), (Numbers{1, 2, 0, 1, 2, 0, 1}));
  // Longer than the input: the pattern goes on.
  EXPECT_EQ(run_op(Pad{PadMode::Reflect}, {x, i64s({0, 0, 0, 5})})[0].to_doubles(),
            (Numbers{0, 1, 2, 1, 0, 1, 2, 1}));
}

TEST(Pad, NegativePadsCutFirst) {
  const Tensor x = counting({5});
  EXPECT_EQ(run_op(Pad{PadMode::Constant}, {x, i64s({-1, 2})})[0].to_doubles(), (Numbers{1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(run_op(Pad{PadMode::Edge}, {x, i64s({1, -3})})[0].to_doubles(), (Numbers{0, 0, 1}));
  expect_says(input_error([&] { run_op(Pad{PadMode::Constant}, {x, i64s({-3, -3})}); }), "cut off more");
  expect_says(input_error([&] { run_op(Pad{PadMode::Edge}, {counting({0}), i64s({1, 0})}); }), "no elements");
}

TEST(Pad, AxesAndSymbols) {
  EXPECT_EQ(run_op(Pad{}, {counting({1, 2}), i64s({1, 0}), {}, i64s({-1})})[0].extents(), (Extents{1, 3}));
  const auto result =
      infer_values(Pad{PadMode::Constant, Shape{0, 1, 0, 2}}, {typed(DType::Float32, {kBatch, kSeq})});
  EXPECT_EQ(result[0].shape, (Shape{kBatch, kSeq + Dim(3)}));
  expect_says(input_error([] {
                run_op(Pad{}, {counting({2}), i64s({1})});
              }),
              "pads has 1 entries, expected 2");
  expect_says(input_error([] {
                run_op(Pad{}, {counting({2}), i64s({1, 1, 1, 1}), {}, i64s({0, 0})});
              }),
              "padded twice");
  expect_says(input_error([] {
                run_op(Pad{}, {counting({2}), i64s({1, 1}), f32s({2}, {1, 2})});
              }),
              "pad value has 2");
}

}  // namespace
}  // namespace lathe
