// SPDX-License-Identifier: Apache-2.0
//
// Filling memory with one element of any size of whole bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace lathe::cpu {

template <class T>
void fill_typed(std::byte* to, int64_t n, const std::byte* value) {
  T element;
  std::memcpy(&element, value, sizeof(T));
  std::fill_n(reinterpret_cast<T*>(to), n, element);
}

inline void fill_elements(std::byte* to, int64_t n, const std::byte* value, int64_t bytes) {
  switch (bytes) {
    case 1:
      return fill_typed<uint8_t>(to, n, value);
    case 2:
      return fill_typed<uint16_t>(to, n, value);
    case 4:
      return fill_typed<uint32_t>(to, n, value);
    default:
      return fill_typed<uint64_t>(to, n, value);
  }
}

}  // namespace lathe::cpu
