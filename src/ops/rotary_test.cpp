// SPDX-License-Identifier: Apache-2.0
#include "ops/evaluate_op.h"
#include "ops/op_test.h"

namespace lathe {
namespace {

// A quarter turn of the first pair, nothing for the second.
const Tensor kCosines = f32s({4}, {0, 1, 0, 1}), kSines = f32s({4}, {1, 0, 1, 0});

TEST(Rotary, TurnsHalves) {
  const Tensor x = f32s({1, 4}, {1, 2, 3, 4});
  expect_near(evaluate_op(Rotary{}, {kCosines, kSines, x})[0], {-3, 2, 1, 4});
}

TEST(Rotary, TurnsNeighbours) {
  const Tensor x = f32s({1, 4}, {1, 2, 3, 4});
  const Tensor cosines = f32s({4}, {0, 0, 1, 1}), sines = f32s({4}, {1, 1, 0, 0});
  expect_near(evaluate_op(Rotary{.interleaved = true}, {cosines, sines, x})[0], {-2, 1, 3, 4});
}

TEST(Rotary, KeepsTheRestOfARowAndTakesSeveral) {
  const Tensor x = f32s({2, 6}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), y = f32s({4}, {5, 6, 7, 8});
  const auto results = evaluate_op(Rotary{}, {kCosines, kSines, x, y}, 2);
  expect_near(results[0], {-3, 2, 1, 4, 5, 6, -9, 8, 7, 10, 11, 12});
  expect_near(results[1], {-7, 6, 5, 8});
}

TEST(Rotary, AnglesOfEachPosition) {
  const Tensor x = f32s({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});  // item, position, element
  const Tensor cosines = f32s({2, 2}, {1, 1, 0, 0}), sines = f32s({1, 2, 2}, {0, 0, 1, 1});
  expect_near(evaluate_op(Rotary{}, {cosines, sines, x})[0], {1, 2, -4, 3, 5, 6, -8, 7});
}

TEST(Rotary, SaysWhatIsWrong) {
  const auto expect = [](const std::vector<Tensor>& inputs, const std::string& part) {
    expect_input_error([&] { infer_op(Rotary{}, values_of(inputs)); }, part);
  };
  const Tensor x = f32s({1, 4}, {1, 2, 3, 4}), pair = f32s({2}, {1, 2}), three = f32s({3}, {1, 2, 3});
  expect({kCosines, pair, x}, "cosines and sines must end in one dim, they are [4] and [2]");
  expect({three, three, x}, "elements turn in pairs, not 3 of them");
  expect({kCosines, kSines, pair}, "rows of 2 elements have not the 4 that turn");
  expect({f32s({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), kSines, f32s({3, 4}, std::vector<float>(12))},
         "angles of [2, 4] do not broadcast to x, [3, 4]");
}

}  // namespace
}  // namespace lathe
