// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily group_norm_tactics();
namespace {

LayerCase group_norm(int64_t groups, Extents x) {
  const int64_t channels = x[1];
  return {.op = GroupNorm{.groups = groups},
          .inputs = {{.extents = std::move(x)},
                     {.extents = {channels}, .constant = true},
                     {.extents = {channels}, .constant = true}},
          .allowed_types = {DType::BFloat16, DType::Float16},
          .tolerance = 1e-5};
}

TEST(GroupNormTactics, GroupsPlanesAndTypes) {
  for (const int64_t groups : {0, 1, 2, 6})
    for (const Extents& x : {Extents{2, 6, 5, 7}, Extents{1, 12, 64}, Extents{3, 6, 1, 1, 3}}) {
      SCOPED_TRACE(to_string(x));
      EXPECT_GE(check_layer(group_norm_tactics(), group_norm(groups, x)), 3);
    }
}

TEST(GroupNormTactics, EpilogueReadsTheInput) {
  LayerCase layer = group_norm(3, {2, 6, 9, 4});
  layer.epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2);
  layer.operands = {{.extents = {2, 6, 9, 4}}};
  EXPECT_GE(check_layer(group_norm_tactics(), layer), 3);
}

}  // namespace
}  // namespace lathe::cpu
