// SPDX-License-Identifier: Apache-2.0
//
// Elements of any type as whole numbers in the same order.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace lathe::cpu {

// Greater for what ascends later; NaN is the greatest, and both zeros are one.
template <class Wide>
uint64_t key_of(Wide value) {
  if constexpr (std::is_floating_point_v<Wide>) {
    if (value != value) return UINT64_MAX;
    const auto bits = std::bit_cast<uint64_t>(static_cast<double>(value) + 0.0);
    return bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
  } else if constexpr (std::is_same_v<Wide, uint64_t>) {
    return value;
  } else {
    return static_cast<uint64_t>(value) ^ uint64_t { 1 } << 63;
  }
}

}  // namespace lathe::cpu
