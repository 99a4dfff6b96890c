// SPDX-License-Identifier: Apache-2.0
//
// Operators of a page or less: random numbers, Det, BitCast, Unique, TfIdfVectorizer, LinearAttention,
// CumProd.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/op_test.h"

namespace lathe {
namespace {

// --- random numbers
double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double variance_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double v : values) sum += (v - mean) * (v - mean);
  return sum / static_cast<double>(values.size());
}

TEST(RandomOps, UniformIsUniformInItsRange) {
  const std::vector<double> y =
      run_op(RandomUniform{.shape = {100, 100}, .low = -1, .high = 3, .seed = 8}, {})[0].to_doubles();
  EXPECT_NEAR(mean_of(y), 1, 0.03);
  EXPECT_NEAR(variance_of(y), 16.0 / 12, 0.05);
  EXPECT_GE(*std::min_element(y.begin(), y.end()), -1);
  EXPECT_LT(*std::max_element(y.begin(), y.end()), 3);
}

TEST(RandomOps, NormalHasItsMeanAndDeviation) {
  const std::vector<double> y =
      run_op(RandomNormal{.shape = {10000}, .dtype = DType::Float64, .mean = 5, .scale = 2, .seed = 1}, {})[0]
          .to_doubles();
  EXPECT_NEAR(mean_of(y), 5, 0.1);
  EXPECT_NEAR(variance_of(y), 4, 0.2);
}

TEST(RandomOps, SeedsAndThreads) {
  const RandomUniform op{.shape = {5000}, .seed = 3};
  RandomUniform other = op;
  other.seed = 4;
  ThreadPool pool(3);
  const std::vector<double> y = run_op(op, {})[0].to_doubles();
  EXPECT_EQ(y, run_op(op, {}, 1, {}, &pool)[0].to_doubles());
  EXPECT_NE(y, run_op(other, {})[0].to_doubles());
}

// Philox 4x32-10 of counter 0 and key 0 begins with 0x6627e8d5 (the authors' test vectors).
TEST(RandomOps, PhiloxIsPhilox) {
  const double first = run_op(RandomUniform{.shape = {1}}, {})[0].to_doubles()[0];
  EXPECT_EQ(first, static_cast<double>(0x6627e8d5u >> 8) / (1 << 24));
}

TEST(RandomOps, ShapesOfRunTimeAndTypes) {
  const Dim n = Dim::symbol("n");
  EXPECT_EQ(infer_values(RandomUniform{.shape = {n, 2}}, {})[0].shape, (Shape{n, 2}));
  EXPECT_EQ(run_op(RandomUniform{}, {f32s({2, 1}, {0, 0})})[0].extents(), (Extents{2, 1}));
  expect_says(input_error([] { run_op(RandomUniform{.dtype = DType::Int32}, {}); }),
              "random numbers of type int32");
}

// --- Det
TEST(DetOp, SmallMatrices) {
  expect_values(run_op(Det{}, {f32s({2, 2}, {1, 2, 3, 4})})[0], {-2});
  expect_values(run_op(Det{}, {f32s({3, 2, 2}, {0, 1, 1, 0, 1, 2, 2, 4, 2, 0, 0, 3})})[0], {-1, 0, 6});
  expect_values(run_op(Det{}, {f32s({1, 0, 0}, {})})[0], {1});
  expect_says(input_error([] { run_op(Det{}, {f32s({2}, {1, 2})}); }), "at least two dims");
  expect_says(input_error([] { run_op(Det{}, {f32s({1, 2}, {1, 2})}); }), "matrices of 1x2 are not square");
}

// --- BitCast
TEST(BitCastOp, KeepsBits) {
  EXPECT_EQ(run_op(BitCast{.to = DType::Int32}, {f32s({1}, {1})})[0].to_int64s(),
            (std::vector<int64_t>{0x3f800000}));
  EXPECT_EQ(run_op(BitCast{.to = DType::Bool}, {Tensor::from<uint8_t>({3}, {0, 1, 7})})[0].to_int64s(),
            (std::vector<int64_t>{0, 1, 1}));
  expect_says(input_error([] { run_op(BitCast{.to = DType::Int64}, {f32s({1}, {1})}); }),
              "elements of float32 have 32 bits, those of int64 64");
  expect_says(input_error([] { run_op(BitCast{.to = DType::Undefined}, {f32s({1}, {1})}); }),
              "target type of a BitCast is not set");
}

// --- Unique
TEST(UniqueOp, SortedAndInOrderOfAppearance) {
  const Tensor x = f32s({6}, {2, 1, 1, 3, 4, 3});
  auto y = run_op(Unique{}, {x}, 4);
  expect_values(y[0], {1, 2, 3, 4});
  expect_values(y[1], {1, 0, 3, 4});
  expect_values(y[2], {1, 0, 0, 2, 3, 2});
  expect_values(y[3], {2, 1, 2, 1});
  y = run_op(Unique{.sorted = false}, {x}, 4);
  expect_values(y[0], {2, 1, 3, 4});
  expect_values(y[2], {0, 1, 1, 2, 3, 2});
}

TEST(UniqueOp, Slices) {
  const Tensor x = f32s({3, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 4});
  const auto rows = run_op(Unique{.axis = Ints{0}}, {x}, 4);
  EXPECT_EQ(rows[0].extents(), (Extents{2, 3}));
  expect_values(rows[0], {1, 0, 0, 2, 3, 4});
  expect_values(rows[3], {2, 1});
  const auto columns = run_op(Unique{.axis = Ints{-1}}, {f32s({2, 3}, {1, 0, 1, 5, 6, 5})}, 4);
  expect_values(columns[0], {0, 1, 6, 5});
  expect_values(columns[2], {1, 0, 1});
}

TEST(UniqueOp, NanEmptyAndErrors) {
  const auto y = run_op(Unique{}, {f32s({4}, {NAN, 1, NAN, 0})}, 4);
  EXPECT_EQ(y[0].extents(), (Extents{3}));
  expect_values(y[3], {1, 1, 2});
  EXPECT_EQ(run_op(Unique{}, {f32s({0}, {})}, 4)[0].extents(), (Extents{0}));
  EXPECT_EQ(run_op(Unique{.axis = Ints{0}}, {f32s({0, 2}, {})}, 4)[0].extents(), (Extents{0, 2}));
  expect_says(input_error([] { run_op(Unique{.axis = Ints{1}}, {f32s({1}, {1})}, 4); }),
              "the axis of Unique");
  expect_says(input_error([] { run_op(Unique{.axis = Ints{}}, {f32s({1}, {1})}, 4); }), "0 axes, not one");
}

// --- TfIdfVectorizer
TfIdfVectorizer bigrams() {
  return {.min_gram = 1,
          .max_gram = 2,
          .max_skip = 0,
          .ngram_counts = {0, 2},
          .ngram_indexes = {0, 1, 2},
          .pool = {5, 6, 5, 6}};
}

TEST(TfIdfOp, CountsNgrams) {
  const Tensor x = i64s({5, 6, 5, 7, 6});
  expect_values(run_op(bigrams(), {x})[0], {2, 2, 1});
  TfIdfVectorizer op = bigrams();
  op.max_skip = 1;  // (5, 7) and (6, 5) and ... at distance 2: 6 7, 5 5, 5 6
  expect_values(run_op(op, {x})[0], {2, 2, 2});
  op = bigrams();
  op.mode = TfIdfMode::IDF;
  op.weights = {0.5f, 2, 3};
  expect_values(run_op(op, {x})[0], {0.5, 2, 3});
  op.mode = TfIdfMode::TFIDF;
  expect_values(run_op(op, {x})[0], {1, 4, 3});
  EXPECT_EQ(run_op(op, {Tensor::from<int64_t>({2, 0}, {})})[0].extents(), (Extents{2, 3}));
}

TEST(TfIdfOp, WrongListsAreRefused) {
  const auto error = [](TfIdfVectorizer op) { return input_error([&] { run_op(op, {i64s({1})}); }); };
  TfIdfVectorizer op = bigrams();
  op.ngram_indexes = {0, 1};
  expect_says(error(op), "the pool has 3 n-grams, ngram_indexes 2 entries");
  op = bigrams();
  op.ngram_counts = {0, 9};
  expect_says(error(op), "items 0 to 9 of a pool of 4 are no n-grams of 1 items");
  op = bigrams();
  op.max_gram = 3;
  expect_says(error(op), "n-grams of 1 to 3 items");
  op = bigrams();
  op.ngram_indexes = {0, -1, 2};
  expect_says(error(op), "an entry of ngram_indexes is negative");
  op = bigrams();
  op.weights = {1};
  expect_says(error(op), "there are 1 weights for 3 columns");
  op = bigrams();
  op.ngram_indexes = {0, 1, int64_t{1} << 40};
  expect_says(error(op), "the largest entry of ngram_indexes is");
  expect_says(input_error([] { run_op(bigrams(), {f32s({1}, {1})}); }), "expected int32 or int64");
  expect_says(input_error([] { run_op(bigrams(), {Tensor::from<int64_t>({}, {1})}); }), "one or two dims");
}

// --- LinearAttention
TEST(LinearAttentionOp, RulesByHand) {
  // one head, K = V = 1, two steps: q = 1, k = 2, v = 3
  const Tensor q = f32s({1, 2, 1}, {1, 1}), k = f32s({1, 2, 1}, {2, 2}), v = f32s({1, 2, 1}, {3, 3});
  const Tensor decay = f32s({1, 2, 1}, {0, std::log(0.5f)}), beta = f32s({1, 2, 1}, {1, 0.5f});
  using Rule = LinearAttentionRule;
  const auto run = [&](Rule rule, const Tensor& d, const Tensor& b) {
    return run_op(LinearAttention{.rule = rule, .scale = 10}, {q, k, v, Tensor(), d, b}, 2);
  };
  expect_values(run(Rule::Linear, {}, {})[0], {60, 120});
  expect_values(run(Rule::Gated, decay, {})[0], {60, 90});
  // 6; then 6 + 2 * 0.5 * (3 - 12)
  expect_values(run(Rule::Delta, {}, beta)[0], {60, -30});
  // 6; 3, then 3 + 2 * 0.5 * (3 - 6)
  expect_values(run(Rule::GatedDelta, decay, beta)[1], {0});
}

TEST(LinearAttentionOp, SharedHeadsAndPastState) {
  const Tensor q = f32s({1, 1, 2}, {1, 2}), k = f32s({1, 1, 1}, {1}), v = f32s({1, 1, 1}, {1});
  const auto y = run_op(LinearAttention{.rule = LinearAttentionRule::Linear, .q_heads = 2},
                        {q, k, v, f32s({1, 1, 1, 1}, {4})}, 2);
  expect_values(y[0], {5, 10});
  expect_values(y[1], {5});
}

TEST(LinearAttentionOp, WrongInputsAreRefused) {
  const Tensor one = f32s({1, 1, 1}, {1});
  const auto error = [](const LinearAttention& op, std::vector<Tensor> inputs) {
    return input_error([&] { run_op(op, inputs, 2); });
  };
  const LinearAttention linear{.rule = LinearAttentionRule::Linear};
  expect_says(error({}, {one, one, one}), "the rule needs decay");
  expect_says(error({.rule = LinearAttentionRule::Delta}, {one, one, one}), "the rule needs beta");
  expect_says(error(linear, {one, one, one, {}, one}), "the rule has no use for decay");
  expect_says(error({.q_heads = 3, .kv_heads = 2}, {one, one, one}),
              "3 query heads are no multiple of 2 key heads");
  expect_says(error({.rule = LinearAttentionRule::Linear, .q_heads = 2, .kv_heads = 2}, {one, one, one}),
              "is not made of 2 heads");
  expect_says(error(linear, {one, f32s({1, 2, 1}, {1, 1}), one}),
              "the shape of k is [1, 2, 1], expected [1, 1, 1]");
  expect_says(error(linear, {one, one, one, f32s({1, 1, 1}, {1})}), "the shape of the past state is");
}

// --- CumProd
TEST(CumProdOp, RunningProducts) {
  const Tensor x = f32s({3}, {1, 2, 3}), axis = Tensor::scalar_i64(0);
  expect_values(run_op(CumProd{}, {x, axis})[0], {1, 2, 6});
  expect_values(run_op(CumProd{.exclusive = true}, {x, axis})[0], {1, 1, 2});
  expect_values(run_op(CumProd{.reverse = true}, {x, axis})[0], {6, 6, 3});
  expect_values(run_op(CumProd{.exclusive = true, .reverse = true}, {x, axis})[0], {6, 3, 1});
  EXPECT_EQ(run_op(CumProd{}, {Tensor::from<int8_t>({2}, {100, 3}), axis})[0].to_int64s(),
            (std::vector<int64_t>{100, 44}));
  expect_says(input_error([&] {
                run_op(CumProd{}, {Tensor::from<bool>({1}, {true}), axis});
              }),
              "products of bool are not defined");
}

}  // namespace
}  // namespace lathe
