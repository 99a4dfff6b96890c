// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily bit_cast_tactics();
TacticFamily view_tactics();
namespace {

TEST(BitCastTactics, Copies) {
  const auto check = [](DType from, DType to, Extents x) {
    EXPECT_GE(
        check_layer(bit_cast_tactics(), {.op = BitCast{to}, .inputs = {{from, std::move(x), false, 0, 3}}}),
        1);
  };
  check(DType::Float32, DType::Int32, {5, 7});
  check(DType::Int64, DType::UInt64, {2000});
  check(DType::UInt8, DType::Bool, {3, 70});
  check(DType::Int16, DType::UInt16, {0, 4});
}

TEST(BitCastTactics, IsAViewUnlessTrueMustBecomeOne) {
  const auto views = [](DType from, DType to) {
    const LayerProblem problem = make_problem({.op = BitCast{to}, .inputs = {{from, {3, 4}, false, 0, 3}}});
    std::vector<Tactic> tactics = view_tactics().list(problem.query(), Machine{});
    for (const Tactic& t : tactics) {
      EXPECT_TRUE(t.support.ok && t.is_view);
      EXPECT_EQ(t.inputs[0].dtype, from);
      EXPECT_EQ(t.outputs[0].dtype, to);
    }
    return tactics.size();
  };
  EXPECT_EQ(views(DType::Float32, DType::Int32), 1u);
  EXPECT_EQ(views(DType::Bool, DType::UInt8), 1u);
  EXPECT_EQ(views(DType::UInt8, DType::Bool), 0u);
}

}  // namespace
}  // namespace lathe::cpu
