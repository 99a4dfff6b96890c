// SPDX-License-Identifier: Apache-2.0
//
// What Loop shares with those who make one.
#pragma once

#include <cstddef>

#include "ir/graph.h"

namespace lathe {

// Operands of a Loop in front of the carried values, and inputs of its body in front of them.
inline constexpr size_t kLoopOwnInputs = 2;

// The operands from `first_operand` on are captured: each body has them as its inputs from `first_input` on.
struct Captured {
  size_t first_operand = 0, first_input = 0;
};
// Of If, Loop and Scan.
Captured captured_by(const Op& op);

// Whether only the trip count ends a loop with this body: the condition that it gives is the one that it
// takes, or constant true. `starts_true`: the condition before the first iteration.
bool always_continues(const Graph& body, bool starts_true);

}  // namespace lathe
