// SPDX-License-Identifier: Apache-2.0
//
// The one matrix product of the reference evaluation: double accumulation, blocked for the caches and
// threaded, so that the oracle judges whole networks in seconds on any x86-64 or other CPU without special
// instructions.
//
// The caller packs: it writes blocks of A and B, converted to double, into panels of four rows (columns).
// Convolution packs patches of its input that way, matmul plain, transposed or broadcast matrices; nothing
// else differs between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/elements.h"
#include "ops/op_def.h"

namespace lathe {

namespace gemm {

inline constexpr int64_t kTileRows = 128, kTileColumns = 256;
// Not a power of two: panels would start at the same cache set.
inline constexpr int64_t kTileDepth = 240;
inline constexpr int64_t kPanel = 4;

// Where element `i` (a row of A or a column of B) at depth k of a block of `depth` goes in packed panels.
inline int64_t panel_index(int64_t i, int64_t k, int64_t depth) {
  return i / kPanel * kPanel * depth + k * kPanel + i % kPanel;
}

// c (rows x columns, row stride kTileColumns) += packed a times packed b. Buffers are padded to whole panels.
void multiply_tile(const double* a, const double* b, int64_t rows, int64_t columns, int64_t depth, double* c);

}  // namespace gemm

struct GemmSize {
  int64_t batches = 1, rows = 0, columns = 0, depth = 0;
};

// For every batch: result = A (rows x depth) * B (depth x columns).
//   pack_a(batch, row, rows, k, depth, out): writes A[row + r, k + d] to out[panel_index(r, d, depth)]
//   pack_b(batch, column, columns, k, depth, out): writes B[k + d, column + j] to out[panel_index(j, d,
//   depth)] store(batch, row, column, columns, values): receives one row of a finished tile
// `out` is zero beyond the rows and columns asked for.
template <class PackA, class PackB, class Store>
void blocked_gemm(const EvaluateContext& context, const GemmSize& size, const PackA& pack_a,
                  const PackB& pack_b, const Store& store) {
  using namespace gemm;
  const int64_t row_tiles = (size.rows + kTileRows - 1) / kTileRows;
  const int64_t column_tiles = (size.columns + kTileColumns - 1) / kTileColumns;
  context.parallel_for(size.batches * row_tiles * column_tiles, 1, [&](int64_t first, int64_t last) {
    std::vector<double> a(kTileRows * kTileDepth), b(kTileColumns * kTileDepth), c(kTileRows * kTileColumns);
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t batch = tile / (row_tiles * column_tiles);
      // Rows first: a last tile of few rows would else make one thread's share lighter than the other's.
      const int64_t row = tile % row_tiles * kTileRows;
      const int64_t column = tile / row_tiles % column_tiles * kTileColumns;
      const int64_t rows = std::min(kTileRows, size.rows - row);
      const int64_t columns = std::min(kTileColumns, size.columns - column);
      std::fill(c.begin(), c.end(), 0.0);
      for (int64_t k = 0; k < size.depth; k += kTileDepth) {
        const int64_t depth = std::min(kTileDepth, size.depth - k);
        if (rows % kPanel) std::fill_n(a.data() + rows / kPanel * kPanel * depth, kPanel * depth, 0.0);
        if (columns % kPanel) std::fill_n(b.data() + columns / kPanel * kPanel * depth, kPanel * depth, 0.0);
        pack_a(batch, row, rows, k, depth, a.data());
        pack_b(batch, column, columns, k, depth, b.data());
        multiply_tile(a.data(), b.data(), rows, columns, depth, c.data());
      }
      for (int64_t r = 0; r < rows; ++r) store(batch, row + r, column, columns, c.data() + r * kTileColumns);
    }
  });
}

// A tensor as an array of float or double: in place where it is one already, else converted.
template <class Real>
class RealArray {
 public:
  explicit RealArray(const Tensor& tensor) {
    const std::byte* bytes = tensor.bytes().data();
    if (tensor.dtype() == dtype_of<Real>() && reinterpret_cast<uintptr_t>(bytes) % sizeof(Real) == 0) {
      data_ = reinterpret_cast<const Real*>(bytes);
      return;
    }
    converted_.resize(static_cast<size_t>(tensor.size()));
    with_codec(tensor.dtype(), [&]<class Codec>() {
      for (size_t i = 0; i < converted_.size(); ++i) {
        converted_[i] = static_cast<Real>(Codec::get(bytes, static_cast<int64_t>(i)));
      }
    });
    data_ = converted_.data();
  }
  RealArray(const RealArray&) = delete;
  const Real* data() const { return data_; }

 private:
  const Real* data_ = nullptr;
  std::vector<Real> converted_;
};

// Calls f(a, b) with arrays of a type that holds both exactly: float unless one of them is float64 or an
// integer.
template <class F>
void with_real_arrays(const Tensor& a, const Tensor& b, F&& f) {
  const auto fits_float = [](DType dtype) { return is_float(dtype) && dtype != DType::Float64; };
  if (fits_float(a.dtype()) && fits_float(b.dtype())) {
    f(RealArray<float>(a).data(), RealArray<float>(b).data());
  } else {
    f(RealArray<double>(a).data(), RealArray<double>(b).data());
  }
}

}  // namespace lathe
