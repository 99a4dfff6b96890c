// SPDX-License-Identifier: Apache-2.0
#include "ir/broadcast.h"

#include <gtest/gtest.h>

#include <tuple>

namespace lathe {
namespace {

TEST(Broadcast, OneElementMeetsSeveral) {
  const Dim n = Dim::symbol("n");
  const std::vector<std::tuple<Shape, Shape, bool>> cases = {{{n, 8, 1, 1}, {n, 8, 7, 7}, true},
                                                             {{8}, {n, 8}, true},
                                                             {{1, 8}, {n, 8}, true},
                                                             {{}, {1, 4}, true},
                                                             {{8}, {1, 8}, false},
                                                             {{n, 8}, {n, 8}, false},
                                                             {{8, 1}, {1, 8, 1}, false}};
  for (const auto& [operand, result, expected] : cases)
    EXPECT_EQ(is_broadcast(operand, result), expected) << to_string(operand) << " in " << to_string(result);
}

}  // namespace
}  // namespace lathe
