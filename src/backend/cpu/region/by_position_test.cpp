// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily pad_tactics();
TacticFamily by_position_tactics();
TacticFamily movement_tactics();
namespace {

constexpr DType kMovedTypes[] = {DType::Float32, DType::BFloat16, DType::Int64, DType::UInt8};

TEST(PadTactics, ModesTypesAndCuts) {
  for (const PadMode mode : {PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap})
    for (const DType type : kMovedTypes)
      for (const Extents& pads :
           {Extents{0, 1, 2, 0, 3, 1}, Extents{1, 0, 0, 0, 0, 2}, Extents{0, -1, 2, 1, 2, -1}}) {
        SCOPED_TRACE(to_string(pads));
        EXPECT_GE(check_layer(pad_tactics(), {.op = Pad{.mode = mode, .pads = to_shape(pads)},
                                              .inputs = {{type, {3, 5, 6}, false, 0, 9}}}),
                  1);
      }
}

TEST(PadTactics, PadsOfRunTime) {
  for (const PadMode mode : {PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap})
    for (const std::vector<double>& pads :
         {std::vector<double>{0, 0, 3, 0, 0, 2}, {1, 0, -1, 0, 2, 0}, {0, 0, 0, 0, 0, 0}}) {
      const CheckedInput given = {
          .dtype = DType::Int64, .extents = {6}, .value = Tensor::from_doubles(DType::Int64, {6}, pads)};
      EXPECT_GE(
          check_layer(pad_tactics(), {.op = Pad{.mode = mode}, .inputs = {{.extents = {3, 4, 7}}, given}}),
          1);
    }
  const CheckedInput axes = {.dtype = DType::Int64, .extents = {1}, .constant = true, .low = -2, .high = -2};
  const CheckedInput pair = {.dtype = DType::Int64,
                             .extents = {2},
                             .value = Tensor::from_doubles(DType::Int64, {2}, std::vector<double>{2, 1})};
  EXPECT_GE(check_layer(pad_tactics(),
                        {.op = Pad{}, .inputs = {{.extents = {3, 4, 7}}, pair, {.absent = true}, axes}}),
            1);
}

TEST(PadTactics, ValueAndAxes) {
  EXPECT_GE(
      check_layer(
          pad_tactics(),
          {.op = Pad{.pads = to_shape(Extents{2, 1})},
           .inputs = {{.extents = {4, 9}},
                      {.absent = true},
                      {.extents = {}, .constant = true},
                      {.dtype = DType::Int64, .extents = {1}, .constant = true, .low = -2, .high = -1.5}}}),
      1);
}

TEST(ByPositionTactics, Triangles) {
  for (const bool upper : {false, true})
    for (const DType type : kMovedTypes)
      for (const double k : {-9.0, -1.0, 0.0, 2.0, 9.0})
        EXPECT_GE(
            check_layer(
                by_position_tactics(),
                {.op = Trilu{upper},
                 .inputs =
                     {{type, {2, 5, 7}, false, 0, 9},
                      {.dtype = DType::Int64, .extents = {}, .constant = true, .low = k, .high = k + 0.5}}}),
            1);
  EXPECT_GE(check_layer(by_position_tactics(), {.op = Trilu{}, .inputs = {{.extents = {300, 40}}}}), 1);
}

TEST(ByPositionTactics, OneHotOnEveryAxis) {
  for (const int64_t axis : {0, 1, 2, -1})
    for (const DType type : kMovedTypes)
      EXPECT_GE(
          check_layer(
              by_position_tactics(),
              {.op = OneHot{axis},
               .inputs = {{.dtype = DType::Int64, .extents = {6, 9}, .low = -9, .high = 9},
                          {.dtype = DType::Int64, .extents = {1}, .constant = true, .low = 7, .high = 7.5},
                          {type, {2}, true, 0, 9}}}),
          1);
}

TEST(ByPositionTactics, ReversedSequences) {
  for (const bool time_first : {false, true}) {
    const ReverseSequence op{.batch_axis = time_first ? 1 : 0, .time_axis = time_first ? 0 : 1};
    for (const DType type : kMovedTypes)
      EXPECT_GE(check_layer(by_position_tactics(),
                            {.op = op,
                             .inputs = {{type, {6, 6, 5}, false, 0, 9},
                                        {.dtype = DType::Int64, .extents = {6}, .low = 0, .high = 6.5}}}),
                1);
  }
}

TEST(MovementTactics, Tiles) {
  for (const DType type : kMovedTypes)
    EXPECT_GE(check_layer(movement_tactics(), {.op = Tile{to_shape(Extents{2, 1, 3, 5})},
                                               .inputs = {{type, {3, 4, 1, 7}, false, 0, 9}}}),
              1);
}

}  // namespace
}  // namespace lathe::cpu
