// SPDX-License-Identifier: Apache-2.0
//
// What Loop shares with those who make one.
#pragma once

#include <cstddef>

namespace lathe {

// Operands of a Loop in front of the carried values, and inputs of its body in front of them.
inline constexpr size_t kLoopOwnInputs = 2;

}  // namespace lathe
