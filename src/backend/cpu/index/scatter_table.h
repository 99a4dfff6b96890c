// SPDX-License-Identifier: Apache-2.0
//
// What a scattering layer does with neighbouring elements: combines old ones with updates. One table per
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::cpu {

// Types with vector loops.
enum class ScatterElement : uint8_t { F32, F64, BF16, F16, I8, U8, I16, U16, I32, U32, I64, U64 };
inline constexpr size_t kScatterElements = 12;

// to[0, n) = old values combined with from[0, n), which lies elsewhere. Integers wrap around; NaN wins.
using ScatterLoop = void (*)(std::byte* to, const std::byte* from, int64_t n);

struct ScatterLoops {
  ScatterLoop of[kScatterElements];  // by ScatterElement
};
struct ScatterTable {
  ScatterLoops add, mul, min, max;
};

const ScatterTable& scatter_table_avx2();
const ScatterTable& scatter_table_avx512();

}  // namespace lathe::cpu
