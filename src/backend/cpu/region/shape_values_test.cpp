// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily shape_values_tactics();
namespace {

TEST(ShapeValuesTactics, EveryOperator) {
  const auto check = [](LayerCase layer) { EXPECT_GE(check_layer(shape_values_tactics(), layer), 1); };
  check({.op = ShapeTensor{.dims = to_shape(Extents{3, 4})}});
  check({.op = ShapeTensor{.dims = to_shape(Extents{3}), .scalar = true}});
  check({.op = ShapeOf{}, .inputs = {{.extents = {3, 4, 5}}}});
  check({.op = ShapeOf{.start = -2, .end = Ints{-1}}, .inputs = {{.extents = {3, 4, 5}}}});
  for (const DType type : {DType::Float32, DType::Float16, DType::Int64})
    check({.op = Fill{.shape = to_shape(Extents{40, 50}), .dtype = type, .value = 3}});
  check({.op = RandomNormal{.shape = to_shape(Extents{7, 9}), .seed = 3}});
}

}  // namespace
}  // namespace lathe::cpu
