// SPDX-License-Identifier: Apache-2.0
//
// Transposition of tiles of 4-byte elements in registers, and of a few lines of bytes.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// out[c * out_stride + r] = in[r * in_stride + c] for r < rows, c < cols.
void transpose_4byte_avx2(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t rows,
                          int64_t cols);

// Lines that interleave_bytes_avx2 takes, at least two.
inline constexpr int64_t kMostInterleaved = 4;
// out[i * lines + line] = in[line * in_stride + i] for i < count.
void interleave_bytes_avx2(const void* in, int64_t in_stride, int64_t lines, void* out, int64_t count);

}  // namespace lathe::cpu
