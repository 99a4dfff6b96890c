// SPDX-License-Identifier: Apache-2.0
//
// Loops of independent multiply-adds in registers, one file per instruction set. Each returns the operations
// it did.
#pragma once

#include <cstdint>

namespace lathe::bench {

double multiply_add_avx2(int64_t rounds);
double multiply_add_avx512(int64_t rounds);
double dot_bf16_avx512(int64_t rounds);
double dot_bf16_amx(int64_t rounds);

}  // namespace lathe::bench
