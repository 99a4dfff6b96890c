// SPDX-License-Identifier: Apache-2.0
//
// Lines of complex numbers that a member transforms together: where they lie in its scratch, and how they are
// read and written.
#pragma once

#include <algorithm>

#include "backend/cpu/signal/fft.h"
#include "backend/cpu/vector/own_tactic.h"
#include "base/floats.h"

namespace lathe::cpu {

template <Stored kType>
float read_float(const void* x, int64_t i) {
  if constexpr (kType == Stored::F32) return static_cast<const float*>(x)[i];
  const uint16_t bits = static_cast<const uint16_t*>(x)[i];
  return kType == Stored::BF16 ? bf16_to_float(bits) : fp16_to_float(bits);
}
template <Stored kType>
void write_float(void* y, int64_t i, float value) {
  if constexpr (kType == Stored::F32)
    static_cast<float*>(y)[i] = value;
  else
    static_cast<uint16_t*>(y)[i] = kType == Stored::BF16 ? float_to_bf16(value) : float_to_fp16(value);
}
template <class F>
void with_stored(Stored type, F&& f) {
  if (type == Stored::F32) return f.template operator()<Stored::F32>();
  if (type == Stored::BF16) return f.template operator()<Stored::BF16>();
  f.template operator()<Stored::F16>();
}

// Calls f(line, first row, last row + 1) for pieces of 16 rows: a line lies in its rows, other numbers in the
// columns of all lines, so that one of the two is far apart; a piece stays in L1.
template <class F>
void for_each_piece(int64_t rows, int64_t lines, F&& f) {
  constexpr int64_t kRows = 16;
  for (int64_t first = 0; first < rows; first += kRows)
    for (int64_t line = 0; line < lines; ++line) f(line, first, std::min(first + kRows, rows));
}

class Lines {
 public:
  static constexpr int64_t kTogether = 16;
  static constexpr int64_t kNumbers = 1 << 15;  // of 16 bytes, both places: what stays in L2

  // `total`: the lines that there are.
  Lines(const Fft& fft, int64_t total, int threads)
      : rows_(fft.rows()),
        together_(
            std::clamp<int64_t>(std::min(kNumbers / rows_, (total + threads - 1) / threads), 1, kTogether)) {}

  int64_t together() const { return together_; }
  int64_t member_floats() const { return 4 * place_floats(); }
  ComplexRows first(float* memory) const { return {memory, memory + place_floats()}; }
  ComplexRows second(float* memory) const { return first(memory + 2 * place_floats()); }

 private:
  int64_t place_floats() const { return round_up(rows_ * together_, 16); }
  int64_t rows_, together_;
};

// A transform makes NaN of both parts of every result when one part of one number is NaN or infinite; one of
// a single point only copies.
inline void put_number(const ComplexRows& lines, int64_t at, float re, float im, int64_t points) {
  lines.re[at] = points == 1 ? re : re + 0 * im;
  lines.im[at] = points == 1 ? im : im + 0 * re;
}

}  // namespace lathe::cpu
