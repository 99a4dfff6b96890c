// SPDX-License-Identifier: Apache-2.0
//
// What layers over rows share: their kernels' table, and rows of 16 bits as FP32.
#pragma once

#include <algorithm>

#include "backend/cpu/region/rows_table.h"
#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {

inline const RowsTable& rows_table(Isa isa) {
  if (isa >= Isa::Avx512Bf16) return rows_table_avx512_bf16();
  return isa == Isa::Avx2 ? rows_table_avx2() : rows_table_avx512();
}

// A row as FP32: in place, or widened into `buffer`.
inline const float* widen(const PointwiseTable& table, DType type, const void* row, int64_t n,
                          float* buffer) {
  if (type == DType::Float32) return static_cast<const float*>(row);
  const auto* halves = static_cast<const uint16_t*>(row);
  (type == DType::BFloat16 ? table.load_bf16 : table.load_f16)(halves, buffer, n);
  return buffer;
}

// The opposite.
inline void store_row(const PointwiseTable& table, DType type, const float* row, int64_t n, void* to) {
  if (type == DType::Float32)
    std::copy_n(row, n, static_cast<float*>(to));
  else
    (type == DType::BFloat16 ? table.store_bf16 : table.store_f16)(row, static_cast<uint16_t*>(to), n);
}

}  // namespace lathe::cpu
