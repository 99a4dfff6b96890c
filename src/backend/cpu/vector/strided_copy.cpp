// SPDX-License-Identifier: Apache-2.0
//
// Copies between strided views. A head split or merge comes out as row copies at memory speed; a 2-D
// transposition as tiles of 8x8 in registers (vector/transpose_avx2.cpp).
#include "backend/cpu/vector/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/vector/transpose_tile.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kTile = 64;  // rows of the output that a member takes at a time

template <class T>
void copy_elements(const std::byte* in, int64_t in_stride, std::byte* out, int64_t out_stride, int64_t n) {
  const T* a = reinterpret_cast<const T*>(in);
  T* b = reinterpret_cast<T*>(out);
  if (in_stride == 0 && out_stride == 1) {
    std::fill_n(b, n, *a);
    return;
  }
  for (int64_t i = 0; i < n; ++i) b[i * out_stride] = a[i * in_stride];
}

void copy_row(int64_t bytes, const std::byte* in, int64_t in_stride, std::byte* out, int64_t out_stride,
              int64_t n) {
  if (in_stride == 1 && out_stride == 1) {
    std::memcpy(out, in, static_cast<size_t>(n * bytes));
    return;
  }
  switch (bytes) {
    case 1:
      return copy_elements<uint8_t>(in, in_stride, out, out_stride, n);
    case 2:
      return copy_elements<uint16_t>(in, in_stride, out, out_stride, n);
    case 4:
      return copy_elements<uint32_t>(in, in_stride, out, out_stride, n);
    default:
      return copy_elements<uint64_t>(in, in_stride, out, out_stride, n);
  }
}

// out[c * out_stride + r] = in[r * in_stride + c], in squares that stay in L1.
template <class T>
void transpose(const std::byte* in, int64_t in_stride, std::byte* out, int64_t out_stride, int64_t rows,
               int64_t cols) {
  const T* a = reinterpret_cast<const T*>(in);
  T* b = reinterpret_cast<T*>(out);
  constexpr int64_t kSide = 16;
  for (int64_t c0 = 0; c0 < cols; c0 += kSide)
    for (int64_t r0 = 0; r0 < rows; r0 += kSide)
      for (int64_t c = c0; c < std::min(cols, c0 + kSide); ++c)
        for (int64_t r = r0; r < std::min(rows, r0 + kSide); ++r)
          b[c * out_stride + r] = a[r * in_stride + c];
}

}  // namespace

StridedCopy::StridedCopy(int64_t element_bytes, const Extents& extents, const Extents& in_strides,
                         const Extents& out_strides)
    : bytes_(element_bytes) {
  check(bytes_ == 1 || bytes_ == 2 || bytes_ == 4 || bytes_ == 8, "StridedCopy: element size");
  std::vector<Dim> dims;
  for (size_t d = 0; d < extents.size(); ++d)
    if (extents[d] != 1) dims.push_back({extents[d], in_strides[d], out_strides[d]});
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.out > b.out; });
  std::vector<Dim> merged;
  for (const Dim& d : dims) {
    if (!merged.empty() && merged.back().in == d.in * d.extent && merged.back().out == d.out * d.extent)
      merged.back() = {merged.back().extent * d.extent, d.in, d.out};
    else
      merged.push_back(d);
  }
  if (!merged.empty()) {
    row_ = merged.back();
    merged.pop_back();
  }
  if (row_.in != 1 && row_.out == 1 && row_.extent >= 4) {
    const auto it =
        std::find_if(merged.begin(), merged.end(), [](const Dim& d) { return d.in == 1 && d.extent >= 4; });
    if (it != merged.end()) {
      tiles_ = true;
      across_ = *it;
      merged.erase(it);
    }
  }
  outer_ = merged;
  for (const Dim& d : outer_) outer_count_ *= d.extent;
}

double StridedCopy::nanoseconds() const {
  const double elements = static_cast<double>(outer_count_ * row_.extent * (tiles_ ? across_.extent : 1));
  const bool fast = tiles_ ? bytes_ == 4 : row_.in == 1;
  const double rows = static_cast<double>(outer_count_);
  return fast ? elements * static_cast<double>(bytes_) * 0.06 + rows * 5 : elements * 1.0;
}

void StridedCopy::run(const void* in, void* out, const Worker& worker) const {
  if (outer_count_ * row_.extent * across_.extent == 0) return;
  const auto* a = static_cast<const std::byte*>(in);
  auto* b = static_cast<std::byte*>(out);
  if (tiles_)
    run_tiles(a, b, worker);
  else
    run_rows(a, b, worker);
}

void StridedCopy::offsets(int64_t index, int64_t& in, int64_t& out) const {
  in = out = 0;
  for (size_t d = outer_.size(); d-- > 0;) {
    const int64_t i = index % outer_[d].extent;
    index /= outer_[d].extent;
    in += i * outer_[d].in;
    out += i * outer_[d].out;
  }
}

void StridedCopy::run_rows(const std::byte* in, std::byte* out, const Worker& worker) const {
  int64_t a = 0, b = 0;
  if (outer_count_ < 4 * worker.count) {  // few rows: share each
    const int64_t grain = std::max<int64_t>(1, 64 / bytes_);
    const Worker::Range part = worker.slice(row_.extent, grain);
    for (int64_t i = 0; i < outer_count_; ++i) {
      offsets(i, a, b);
      copy_row(bytes_, in + (a + part.begin * row_.in) * bytes_, row_.in,
               out + (b + part.begin * row_.out) * bytes_, row_.out, part.end - part.begin);
    }
    return;
  }
  const Worker::Range part = worker.slice(outer_count_);
  for (int64_t i = part.begin; i < part.end;) {
    // The last outer dim advances without divisions.
    const Dim last = outer_.empty() ? Dim{1, 0, 0} : outer_.back();
    const int64_t n = std::min(part.end - i, last.extent - i % last.extent);
    offsets(i, a, b);
    for (int64_t k = 0; k < n; ++k)
      copy_row(bytes_, in + (a + k * last.in) * bytes_, row_.in, out + (b + k * last.out) * bytes_, row_.out,
               row_.extent);
    i += n;
  }
}

void StridedCopy::run_tiles(const std::byte* in, std::byte* out, const Worker& worker) const {
  const int64_t pieces = (across_.extent + kTile - 1) / kTile;
  const Worker::Range part = worker.slice(outer_count_ * pieces);
  for (int64_t i = part.begin; i < part.end; ++i) {
    int64_t a = 0, b = 0;
    offsets(i / pieces, a, b);
    const int64_t c = i % pieces * kTile, cols = std::min(kTile, across_.extent - c);
    const std::byte* from = in + (a + c) * bytes_;
    std::byte* to = out + (b + c * across_.out) * bytes_;
    switch (bytes_) {
      case 1:
        transpose<uint8_t>(from, row_.in, to, across_.out, row_.extent, cols);
        break;
      case 2:
        transpose<uint16_t>(from, row_.in, to, across_.out, row_.extent, cols);
        break;
      case 4:
        transpose_4byte_avx2(from, row_.in, to, across_.out, row_.extent, cols);
        break;
      default:
        transpose<uint64_t>(from, row_.in, to, across_.out, row_.extent, cols);
        break;
    }
  }
}

}  // namespace lathe::cpu
