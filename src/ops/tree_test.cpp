// SPDX-License-Identifier: Apache-2.0
#include "ops/tree.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_test.h"

namespace lathe {
namespace {

// x0 <= 1 ? (x1 < 0 ? leaf 0 : leaf 1) : leaf 2; and a tree that is leaf 3.
struct Tables {
  std::vector<double> features = {0, 1}, thresholds = {1, 0}, modes = {0, 1}, children = {1, -3, -1, -2},
                      roots = {0, -4}, begins = {0, 1, 2, 4, 5}, targets = {0, 0, 0, 1, 1},
                      weights = {10, 20, 30, 40, 5};
};

Tensor table(DType type, const std::vector<double>& values) {
  return Tensor::from_doubles(type, {static_cast<int64_t>(values.size())}, values);
}

std::vector<Tensor> inputs(const Tables& t, const std::vector<float>& x) {
  return {f32s({static_cast<int64_t>(x.size()) / 2, 2}, x),
          table(DType::Int32, t.features),
          table(DType::Float32, t.thresholds),
          table(DType::UInt8, t.modes),
          table(DType::Int32, t.children),
          table(DType::Int32, t.roots),
          table(DType::Int32, t.begins),
          table(DType::Int32, t.targets),
          table(DType::Float32, t.weights)};
}

TEST(TreeOp, WalksToALeafOfEachTree) {
  const std::vector<float> rows = {1, -1, 1, 0, 2, 7};
  expect_values(run_op(TreeEnsemble{.targets = 2}, inputs({}, rows))[0], {10, 5, 20, 5, 30, 45});
  expect_values(run_op(TreeEnsemble{.targets = 2, .aggregate = TreeAggregate::Average}, inputs({}, rows))[0],
                {5, 2.5, 10, 2.5, 15, 22.5});
  expect_values(run_op(TreeEnsemble{.targets = 2, .aggregate = TreeAggregate::Max}, inputs({}, rows))[0],
                {10, 5, 20, 5, 30, 40});
  expect_values(run_op(TreeEnsemble{.targets = 3, .aggregate = TreeAggregate::Min}, inputs({}, rows))[0],
                {10, 5, 0, 20, 5, 0, 30, 5, 0});
}

TEST(TreeOp, NanFollowsTheNode) {
  Tables t;
  expect_values(run_op(TreeEnsemble{.targets = 2}, inputs(t, {std::nanf(""), 0}))[0], {30, 45});
  t.modes[0] = 8;
  expect_values(run_op(TreeEnsemble{.targets = 2}, inputs(t, {std::nanf(""), 0}))[0], {20, 5});
}

TEST(TreeOp, ComparesInSixWays) {
  const double nan = std::nan("");
  using T = TreeEnsemble;
  const std::vector<std::vector<bool>> expected = {{true, true, false},  {true, false, false},
                                                   {false, true, true},  {false, false, true},
                                                   {false, true, false}, {true, false, true}};
  for (int64_t mode = 0; mode < 6; ++mode)
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(goes_to_first(mode, static_cast<double>(i), 1), expected[static_cast<size_t>(mode)][i])
          << mode;
  EXPECT_FALSE(goes_to_first(T::kLessEqual, nan, 1));
  EXPECT_TRUE(goes_to_first(T::kLessEqual | T::kMissingIsTrue, nan, 1));
}

std::string error(const Tables& t, const std::vector<float>& x = {0, 0}) {
  return input_error([&] { run_op(TreeEnsemble{.targets = 2}, inputs(t, x)); });
}

TEST(TreeOp, WrongTablesAreRefused) {
  Tables t;
  t.children[0] = 0;  // the root's own child
  expect_says(error(t), "node 0 leads to 0, which is no leaf and no later one of the 2 nodes");
  t = {};
  t.roots[1] = -5;
  expect_says(error(t), "a root leads to -5");
  t = {};
  t.features[1] = -1;
  expect_says(error(t), "node 1 compares feature -1");
  t.features[1] = 2;
  expect_says(error(t), "a node compares feature 2 of rows of 2");
  t = {};
  t.modes[0] = 6;
  expect_says(error(t), "node 0 has mode 6");
  t = {};
  t.targets[4] = 2;
  expect_says(error(t), "a leaf counts for target 2 of 2");
  t = {};
  t.begins = {0, 1, 3, 2, 5};
  expect_says(error(t), "leaf_begins does not divide the 5 weights");
  expect_says(input_error([&] {
                run_op(TreeEnsemble{.targets = 0}, inputs({}, {0, 0}));
              }),
              "it has 0 targets");
}

TEST(InverseOp, TurnsMatricesAround) {
  expect_values(run_op(Inverse{}, {f32s({2, 2}, {4, 7, 2, 6})})[0], {0.6, -0.7, -0.2, 0.4});
  expect_values(run_op(Inverse{}, {f32s({2, 2, 2}, {0, 1, 1, 0, 2, 0, 0, 4})})[0],
                {0, 1, 1, 0, 0.5, 0, 0, 0.25});
  EXPECT_EQ(run_op(Inverse{}, {f32s({1, 0, 0}, {})})[0].size(), 0);
  expect_says(input_error([] {
                run_op(Inverse{}, {f32s({1, 2}, {1, 2})});
              }),
              "matrices of 1x2 are not square");
}

}  // namespace
}  // namespace lathe
