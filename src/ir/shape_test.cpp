// SPDX-License-Identifier: Apache-2.0
#include "ir/shape.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe {
namespace {

const Dim kBatch = Dim::symbol("batch");

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Shape, BroadcastFollowsNumpy) {
  EXPECT_EQ(broadcast(Extents{2, 1, 4}, Extents{3, 1}), (Extents{2, 3, 4}));
  EXPECT_EQ(broadcast(Extents{}, Extents{5}), (Extents{5}));
  EXPECT_EQ(broadcast(Extents{0}, Extents{1}), (Extents{0}));
  EXPECT_EQ(broadcast(Shape{kBatch, 1}, Shape{1, 7}), (Shape{kBatch, 7}));
  EXPECT_EQ(broadcast(Shape{kBatch}, Shape{8}), (Shape{8}));
  EXPECT_EQ(broadcast(Shape{kBatch}, Shape{Dim::symbol("n")}), (Shape{kBatch}));
  EXPECT_EQ(broadcast(Shape{min(kBatch, 16)}, Shape{kBatch}), (Shape{kBatch}));
  EXPECT_EQ(broadcast(Shape{min(kBatch, 16)}, Shape{8}), (Shape{8}));
}

TEST(Shape, BroadcastSaysWhatDiffers) {
  EXPECT_EQ(error_of([] {
              broadcast(Shape{2, 3}, Shape{4});
            }),
            "shapes [2, 3] and [4] do not broadcast: 3 and 4 differ and neither is 1");
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(element_count(Extents{}), 1);
  EXPECT_EQ(element_count(Extents{2, 0, 3}), 0);
  EXPECT_EQ(element_count(Extents{INT64_MAX, 4, 0}), 0);
  EXPECT_EQ(element_count(Shape{kBatch, 3, 2}), kBatch * 6);
  EXPECT_NE(error_of([] { element_count(Extents{INT64_MAX, 2}); }).find("64 bits"), std::string::npos);
  EXPECT_NE(error_of([] { element_count(Extents{-1, 2}); }).find("negative"), std::string::npos);
}

TEST(Shape, NormalizeAxisNamesTheUser) {
  EXPECT_EQ(normalize_axis(-1, 4, "Softmax"), 3);
  EXPECT_EQ(error_of([] { normalize_axis(4, 4, "node x (Softmax)"); }),
            "node x (Softmax): axis 4 is outside [-4, 3] for a tensor of rank 4");
}

TEST(Shape, TextForms) {
  EXPECT_EQ(to_string(Shape{kBatch, 3}), "[batch, 3]");
  EXPECT_EQ(to_string(Extents{1, 3}), "1x3");
  EXPECT_EQ(to_string(Extents{}), "scalar");
}

TEST(Shape, StridesAndValues) {
  EXPECT_EQ(row_major_strides({2, 3, 4}), (Extents{12, 4, 1}));
  EXPECT_EQ(row_major_strides({}), (Extents{}));
  EXPECT_FALSE(is_static(Shape{kBatch}));
  EXPECT_EQ(evaluate(Shape{kBatch * 2}, {{"batch", 4}}), (Extents{8}));
  EXPECT_EQ(to_extents(to_shape({4, 5})), (Extents{4, 5}));
}

}  // namespace
}  // namespace lathe
