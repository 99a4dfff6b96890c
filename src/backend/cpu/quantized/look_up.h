// SPDX-License-Identifier: Apache-2.0
//
// Functions of a byte as tables.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// out[i] = table[in[i]]; `in` and `out` may be the same. The table has 256 bytes.
using LookUp = void (*)(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out);
void look_up(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out);
void look_up_avx512_vbmi(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out);

}  // namespace lathe::cpu
