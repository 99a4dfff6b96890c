// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily shape_values_tactics();
TacticFamily range_tactics();
namespace {

TEST(ShapeValuesTactics, EveryOperator) {
  const auto check = [](LayerCase layer) { EXPECT_GE(check_layer(shape_values_tactics(), layer), 1); };
  check({.op = ShapeTensor{.dims = to_shape(Extents{3, 4})}});
  check({.op = ShapeTensor{.dims = to_shape(Extents{3}), .scalar = true}});
  check({.op = ShapeOf{}, .inputs = {{.extents = {3, 4, 5}}}});
  check({.op = ShapeOf{.start = -2, .end = Ints{-1}}, .inputs = {{.extents = {3, 4, 5}}}});
  for (const DType type : {DType::Float32, DType::Float16, DType::Int64})
    check({.op = Fill{.shape = to_shape(Extents{40, 50}), .dtype = type, .value = 3}});
  const CheckedInput sides = {.dtype = DType::Int64, .extents = {3}, .constant = true, .low = 7, .high = 7};
  check({.op = Fill{.dtype = DType::Float32, .value = 3}, .inputs = {sides}});
  check({.op = RandomNormal{.shape = to_shape(Extents{7, 9}), .seed = 3}});
}

TEST(RangeTactics, TypesDirectionsAndLengths) {
  struct Limits {
    double start, limit, delta;
  };
  for (const DType type : {DType::Float32, DType::Float64, DType::Int16, DType::Int32, DType::Int64})
    for (const Limits& l : {Limits{3, 10, 2}, {10, -300, -3}, {-7, 9000, 1}, {5, 5, 1}, {5, 2, 1}}) {
      SCOPED_TRACE(std::string(dtype_name(type)) + " to " + std::to_string(l.limit));
      const auto number = [&](double value) {
        return CheckedInput{.dtype = type, .extents = {}, .constant = true, .low = value, .high = value};
      };
      EXPECT_GE(check_layer(range_tactics(),
                            {.op = Range{}, .inputs = {number(l.start), number(l.limit), number(l.delta)}}),
                1);
    }
}

}  // namespace
}  // namespace lathe::cpu
