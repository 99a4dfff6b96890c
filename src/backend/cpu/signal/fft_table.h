// SPDX-License-Identifier: Apache-2.0
//
// The passes of fast Fourier transforms, one table per instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// Complex numbers, real and imaginary parts apart.
struct ComplexRows {
  float *re = nullptr, *im = nullptr;
};

// One pass of Stockham's transform: rows of `width` numbers, radix * count of them. Row k + count * j of the
// input, j < radix, become rows radix * k + j of the output: a transform of `radix` points, times the twiddle
// of (k, j).
struct FftPass {
  int64_t radix = 2, count = 1, width = 1;
  const float *twiddle_re = nullptr, *twiddle_im = nullptr;  // [count][radix]
  const float *root_re = nullptr, *root_im = nullptr;        // the radix-th roots of unity
};

struct FftTable {
  void (*pass)(const FftPass& pass, const ComplexRows& in, const ComplexRows& out);
  // Row i of x times factor i, for i < rows.
  void (*scale)(const ComplexRows& x, const float* factor_re, const float* factor_im, int64_t rows,
                int64_t width);
};

const FftTable& fft_table_avx2();
const FftTable& fft_table_avx512();

}  // namespace lathe::cpu
