// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily unique_tactics();
namespace {

// Numbers repeat.
LayerCase repeated(const Unique& op, DType type, Extents extents, double most = 4.5) {
  const bool has_sign = type != DType::UInt8 && type != DType::Bool;
  return {
      .op = op,
      .inputs = {{type, std::move(extents), false, has_sign ? -most : 0.0, type == DType::Bool ? 1.9 : most}},
      .outputs = 4};
}

constexpr DType kUniqueTypes[] = {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64,
                                  DType::Int64,   DType::Int32,   DType::UInt8,    DType::Bool};

TEST(UniqueTactics, TypesAndOrders) {
  for (const DType type : kUniqueTypes)
    for (const bool sorted : {true, false}) {
      EXPECT_GE(check_layer(unique_tactics(), repeated({.sorted = sorted}, type, {7, 9})), 1);
      for (const int64_t axis : {0, 1, -1})
        EXPECT_GE(check_layer(unique_tactics(),
                              repeated({.axis = Ints{axis}, .sorted = sorted}, type, {12, 2, 11}, 0.6)),
                  1);
    }
}

TEST(UniqueTactics, LongListsAndNone) {
  for (const bool sorted : {true, false}) {
    EXPECT_GE(check_layer(unique_tactics(), repeated({.sorted = sorted}, DType::Int64, {5000}, 900)), 1);
    EXPECT_GE(check_layer(unique_tactics(), repeated({.sorted = sorted}, DType::Float32, {5001}, 900)), 1);
    EXPECT_GE(check_layer(unique_tactics(), repeated({.sorted = sorted}, DType::Float32, {0})), 1);
    EXPECT_GE(check_layer(unique_tactics(), repeated({.sorted = sorted}, DType::Float32, {})), 1);
  }
}

}  // namespace
}  // namespace lathe::cpu
