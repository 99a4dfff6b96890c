// SPDX-License-Identifier: Apache-2.0
//
// Transposition of tiles of 4-byte elements in registers.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// out[c * out_stride + r] = in[r * in_stride + c] for r < rows, c < cols.
void transpose_4byte_avx2(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
                          int64_t cols);

}  // namespace lathe::cpu
