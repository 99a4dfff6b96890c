// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/signal/fft.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <numbers>

namespace lathe::cpu {
namespace {

using Complex = std::complex<double>;
constexpr int64_t kLargestRadix = 50;

int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

bool has_small_factors(int64_t n) {
  while (n > 1) {
    const int64_t p = smallest_factor(n);
    if (p > kLargestRadix) return false;
    n /= p;
  }
  return true;
}

// exp(-2 pi i k / n)
Complex root(int64_t k, int64_t n) {
  return std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n));
}

// In place, of a power of two.
void transform_doubles(std::vector<Complex>& x) {
  const size_t n = x.size();
  for (size_t i = 1, j = 0; i < n; ++i) {  // j: i with its bits in reverse
    size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (size_t half = 1; half < n; half *= 2)
    for (size_t k = 0; k < half; ++k) {
      const Complex turn = root(static_cast<int64_t>(k), static_cast<int64_t>(2 * half));
      for (size_t i = k; i < n; i += 2 * half) {
        const Complex a = x[i], b = x[i + half] * turn;
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
}

template <class Numbers>
void append(Numbers& numbers, Complex value) {
  numbers.re.push_back(static_cast<float>(value.real()));
  numbers.im.push_back(static_cast<float>(value.imag()));
}

}  // namespace

Fft::Fft(int64_t length, Isa isa)
    : length_(length), rows_(length), table_(isa == Isa::Avx2 ? fft_table_avx2() : fft_table_avx512()) {
  if (has_small_factors(length)) {
    add_passes(length);
    return;
  }
  rows_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * length - 1)));
  add_passes(rows_);
  std::vector<Complex> filter(static_cast<size_t>(rows_));
  for (int64_t j = 0; j < length; ++j) {
    const Complex c = root(j * j % (2 * length), 2 * length);
    append(chirp_, c);
    filter[static_cast<size_t>(j)] = std::conj(c);
    if (j > 0) filter[static_cast<size_t>(rows_ - j)] = std::conj(c);
  }
  transform_doubles(filter);
  for (const Complex& value : filter) append(filter_, value / static_cast<double>(rows_));
}

void Fft::add_passes(int64_t length) {
  for (int64_t left = length; left > 1;) {
    const int64_t radix = left % 4 == 0 ? 4 : smallest_factor(left), count = left / radix;
    Pass pass{radix, count, {}, {}};
    for (int64_t k = 0; k < count; ++k)
      for (int64_t j = 0; j < radix; ++j) append(pass.twiddles, root(k * j, left));
    for (int64_t j = 0; j < radix; ++j) append(pass.roots, root(j, radix));
    passes_.push_back(std::move(pass));
    left = count;
  }
}

ComplexRows Fft::run_passes(ComplexRows lines, ComplexRows other, int64_t count) const {
  int64_t width = count;
  for (const Pass& pass : passes_) {
    table_.pass({pass.radix, pass.count, width, pass.twiddles.re.data(), pass.twiddles.im.data(),
                 pass.roots.re.data(), pass.roots.im.data()},
                lines, other);
    width *= pass.radix;
    std::swap(lines, other);
  }
  return lines;
}

ComplexRows Fft::transform(ComplexRows lines, ComplexRows other, int64_t count) const {
  if (chirp_.re.empty()) return run_passes(lines, other, count);
  table_.scale(lines, chirp_.re.data(), chirp_.im.data(), length_, count);
  std::fill_n(lines.re + length_ * count, (rows_ - length_) * count, 0.0f);
  std::fill_n(lines.im + length_ * count, (rows_ - length_) * count, 0.0f);
  const ComplexRows spectrum = run_passes(lines, other, count);
  table_.scale(spectrum, filter_.re.data(), filter_.im.data(), rows_, count);
  const ComplexRows rest = spectrum.re == lines.re ? other : lines;
  const ComplexRows turned = run_passes({spectrum.im, spectrum.re}, {rest.im, rest.re}, count);
  const ComplexRows result{turned.im, turned.re};
  table_.scale(result, chirp_.re.data(), chirp_.im.data(), length_, count);
  return result;
}

}  // namespace lathe::cpu
