// SPDX-License-Identifier: Apache-2.0

#include "ops/evaluate_op.h"

namespace lathe {
namespace {

TEST(MatMul, SmallExampleAndTransposes) {
  const Tensor a = ramp({2, 3}), b = ramp({3, 2});
  expect_near(evaluate_op(MatMul{}, {a, b})[0], {10, 13, 28, 40});
  const Tensor at = Tensor::from<float>({3, 2}, {0, 3, 1, 4, 2, 5}),
               bt = Tensor::from<float>({2, 3}, {0, 2, 4, 1, 3, 5});
  expect_near(evaluate_op(MatMul{true, false}, {at, b})[0], {10, 13, 28, 40});
  expect_near(evaluate_op(MatMul{false, true}, {a, bt})[0], {10, 13, 28, 40});
  expect_near(evaluate_op(MatMul{true, true}, {at, bt})[0], {10, 13, 28, 40});
}

TEST(MatMul, VectorsAreRowsAndColumns) {
  const Tensor v = ramp({3});
  EXPECT_EQ(evaluate_op(MatMul{}, {v, v})[0].extents(), Extents{});
  expect_near(evaluate_op(MatMul{}, {v, v})[0], {5});
  expect_near(evaluate_op(MatMul{}, {v, ramp({3, 2})})[0], {10, 13});
  expect_near(evaluate_op(MatMul{}, {ramp({2, 3}), v})[0], {5, 14});
}

TEST(MatMul, BatchesBroadcast) {
  const Tensor a = ramp({2, 1, 2, 3}), b = ramp({4, 3, 2});
  const Tensor y = evaluate_op(MatMul{}, {a, b})[0];
  ASSERT_EQ(y.extents(), (Extents{2, 4, 2, 2}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 3; ++k) sum += double((i * 2 + 1) * 3 + k) * double((j * 3 + k) * 2 + 1);
      EXPECT_EQ(y.data<float>()[((i * 4 + j) * 2 + 1) * 2 + 1], static_cast<float>(sum));
    }
  }
}

TEST(MatMul, TilesMeetWithoutSeams) {
  // Extents around the tile sizes, in every position.
  for (const auto& [m, n, k] :
       std::vector<std::array<int64_t, 3>>{{130, 259, 243}, {1, 5, 500}, {127, 1, 1}, {4, 256, 240}}) {
    std::vector<float> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 13) - 6;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 11) - 5;
    const Tensor y =
        evaluate_op(MatMul{}, {Tensor::from<float>({m, k}, a), Tensor::from<float>({k, n}, b)})[0];
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;  // exact: small integers
        for (int64_t l = 0; l < k; ++l)
          sum += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
        ASSERT_EQ(y.data<float>()[i * n + j], sum) << m << "x" << n << "x" << k << " at " << i << ", " << j;
      }
    }
  }
}

TEST(MatMul, IntegersWrap) {
  const Tensor a = Tensor::from<int32_t>({1, 2}, {1 << 30, 3}), b = Tensor::from<int32_t>({2, 1}, {4, 5});
  EXPECT_EQ(evaluate_op(MatMul{}, {a, b})[0].to_int64s(), (std::vector<int64_t>{15}));
}

TEST(MatMul, ErrorsGiveTheShapes) {
  expect_input_error(
      [] {
        evaluate_op(MatMul{}, {ramp({2, 3}), ramp({4, 2})});
      },
      "inner dims differ: 3 and 4");
  expect_input_error([] { evaluate_op(MatMul{}, {ramp({}), ramp({4, 2})}); }, "rank 1 or more");
  expect_input_error(
      [] {
        evaluate_op(MatMul{}, {ramp({2, 4}), Tensor::from<int32_t>({4}, {1, 2, 3, 4})});
      },
      "one type");
}

TEST(Attention, UniformScoresAverageTheValues) {
  const Tensor q = Tensor::allocate(DType::Float32, {1, 1, 2, 4}), v = ramp({1, 1, 3, 2});
  const Tensor k = ramp({1, 1, 3, 4});
  expect_near(evaluate_op(Attention{}, {q, k, v})[0], {2, 3, 2, 3});
  Attention causal;
  causal.causal = true;
  expect_near(evaluate_op(causal, {q, k, v})[0], {0, 1, 1, 2});
}

TEST(Attention, MasksAddOrForbid) {
  const Tensor q = Tensor::allocate(DType::Float32, {1, 1, 1, 4}), k = ramp({1, 1, 3, 4}),
               v = ramp({1, 1, 3, 2});
  Tensor keep = Tensor::from_doubles(DType::Bool, {3}, std::vector<double>{1, 0, 1});
  expect_near(evaluate_op(Attention{}, {q, k, v, keep})[0], {2, 3});
  const Tensor added = Tensor::from<float>({1, 3}, {0, -1e9f, 0});
  expect_near(evaluate_op(Attention{}, {q, k, v, added})[0], {2, 3});
  keep = Tensor::from_doubles(DType::Bool, {1}, std::vector<double>{0});
  expect_near(evaluate_op(Attention{}, {q, k, v, keep})[0], {0, 0});  // nothing allowed: zeros, not NaN
}

TEST(Attention, LayoutsAgree) {
  const Tensor q = ramp({2, 3, 2, 4}, 0.01f), k = ramp({2, 3, 5, 4}, 0.02f), v = ramp({2, 3, 5, 6}, 0.03f);
  const auto swapped = [](const Tensor& t) {  // BHSD <-> BSHD
    const Extents& e = t.extents();
    std::vector<float> out;
    for (int64_t b = 0; b < e[0]; ++b) {
      for (int64_t s = 0; s < e[2]; ++s) {
        for (int64_t h = 0; h < e[1]; ++h) {
          for (int64_t d = 0; d < e[3]; ++d)
            out.push_back(t.data<float>()[((b * e[1] + h) * e[2] + s) * e[3] + d]);
        }
      }
    }
    return Tensor::from<float>({e[0], e[2], e[1], e[3]}, out);
  };
  const Tensor y = evaluate_op(Attention{0.5f}, {q, k, v})[0];
  const Tensor z =
      evaluate_op(Attention{0.5f, false, AttentionLayout::BSHD}, {swapped(q), swapped(k), swapped(v)})[0];
  expect_near(z, swapped(y).to_doubles(), 0);
}

TEST(Attention, ErrorsNameTheMismatch) {
  const Tensor q = ramp({1, 1, 2, 4});
  expect_input_error(
      [&] {
        evaluate_op(Attention{}, {ramp({2, 1, 2, 4}), ramp({1, 1, 3, 4}), ramp({1, 1, 3, 2})});
      },
      "batches of q and k");
  expect_input_error(
      [&] {
        evaluate_op(Attention{}, {q, ramp({1, 1, 3, 5}), ramp({1, 1, 3, 2})});
      },
      "head sizes of q and k");
  expect_input_error(
      [&] {
        evaluate_op(Attention{}, {q, ramp({1, 1, 3, 4}), ramp({1, 1, 2, 2})});
      },
      "lengths of k and v");
  expect_input_error(
      [&] {
        evaluate_op(Attention{}, {q, ramp({3, 4}), ramp({1, 1, 2, 2})});
      },
      "must have rank 4");
  expect_input_error(
      [&] {
        evaluate_op(Attention{}, {q, ramp({1, 1, 3, 4}), ramp({1, 1, 3, 2}), ramp({5, 1, 2, 3})});
      },
      "does not broadcast to the scores");
}

}  // namespace
}  // namespace lathe
