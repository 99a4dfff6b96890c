// SPDX-License-Identifier: Apache-2.0
//
// What timing does with cache lines: reads them, and takes them out of the caches.
#pragma once

#include <cstddef>

#include "base/wait_word.h"

namespace lathe::cpu {

// One byte of each line of [begin, end). The sum is to be used, so that the loop is not dropped.
inline unsigned read_lines(const std::byte* begin, const std::byte* end) {
  unsigned sum = 0;
  for (; begin < end; begin += kCacheLine) sum += static_cast<unsigned>(*begin);
  return sum;
}

// Writes lines back where they are dirty, and drops them from all caches.
inline void flush_lines(const std::byte* begin, const std::byte* end) {
#if defined(__x86_64__) || defined(__i386__)  // an instruction of the target, there is no portable spelling
  for (; begin < end; begin += kCacheLine) __builtin_ia32_clflush(begin);
#else
  (void)begin, (void)end;
#endif
}

}  // namespace lathe::cpu
