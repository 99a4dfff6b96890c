// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms of any length in FP32, of several lines together.
//
// A length whose prime factors are small is made of passes of radix 4, 2, 3, 5 and other primes (Stockham's
// order: every pass writes the rows where the next one reads them, so that nothing is put in order at the
// end). A length with a prime above 50 is a convolution (Bluestein): with c[j] = exp(-pi i j^2 / n), X[k] =
// c[k] * sum of (x[j] c[j]) * conj(c[k - j]), which transforms of a power of two compute. Roots of unity come
// from double, so that the error grows with the logarithm of the length alone.
#pragma once

#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/signal/fft_table.h"

namespace lathe::cpu {

class Fft {
 public:
  Fft(int64_t length, Isa isa);
  // Rows that `lines` and `other` must have room for: the length, or that of the convolution.
  int64_t rows() const { return rows_; }
  // Lines lie as [row][line]. Afterwards the result is in the returned one of the two. The inverse transform,
  // without the factor 1 / n, is the same with re and im in each other's place.
  ComplexRows transform(ComplexRows lines, ComplexRows other, int64_t count) const;

 private:
  void add_passes(int64_t length);
  ComplexRows run_passes(ComplexRows lines, ComplexRows other, int64_t count) const;

  struct Numbers {
    std::vector<float> re, im;
  };
  struct Pass {
    int64_t radix, count;
    Numbers twiddles, roots;
  };
  int64_t length_, rows_;
  const FftTable& table_;
  std::vector<Pass> passes_;
  // Of a convolution: c, and the transform of what lines are convolved with, divided by the rows.
  Numbers chirp_, filter_;
};

}  // namespace lathe::cpu
