// SPDX-License-Identifier: Apache-2.0
//
// The distance of the numbers of E4M3 around x: an eighth of the power of two below it, and never less than
// that of the least normal number.
#pragma once

#include <algorithm>
#include <cmath>

namespace lathe {

inline double e4m3_step(double x) {
  constexpr double kLeastNormal = 0x1p-6;
  return std::exp2(std::floor(std::log2(std::max(std::abs(x), kLeastNormal))) - 3);
}

}  // namespace lathe
