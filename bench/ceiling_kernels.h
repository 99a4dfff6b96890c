// SPDX-License-Identifier: Apache-2.0
//
// Loops of independent multiply-adds in registers, one file per instruction set, each of which returns the
// operations it did; and of loads.
#pragma once

#include <cstdint>

namespace lathe::bench {

double multiply_add_avx2(int64_t rounds);
double multiply_add_avx512(int64_t rounds);
double dot_bf16_avx512(int64_t rounds);
double dot_bf16_amx(int64_t rounds);
// Loads lines of 64 bytes in a row, `bytes` of them together; returns so many.
double load_lines_avx2(const char* from, int64_t bytes);

}  // namespace lathe::bench
