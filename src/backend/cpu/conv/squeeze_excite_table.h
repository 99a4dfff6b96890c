// SPDX-License-Identifier: Apache-2.0
//
// The two small products of a squeeze-and-excite layer, and the product with its gates. One table per
// instruction set. Channels and the middle layer are padded to whole vectors.
#pragma once

#include <cstdint>

#include "backend/cpu/vector/stored.h"

namespace lathe::cpu {

struct SqueezeExciteTable {
  int64_t lanes = 0;
  // out[s] = sum over c < channels of values[c] * w[c][s], for s < size (whole vectors).
  void (*squeeze)(const float* values, int64_t channels, const float* w, int64_t size, float* out);
  // out[c] = bias[c] + sum over s < size of values[s] * w[c / lanes][s][c % lanes], for c < channels (whole
  // vectors).
  void (*excite)(const float* values, int64_t size, const float* w, const float* bias, int64_t channels,
                 float* out);
  // y[p * stride + c] = x[p * stride + c] * gates[c], for c < channels, p < pixels. y may be x.
  void (*scale)(const void* x, Stored stored, int64_t pixels, int64_t stride, int64_t channels,
                const float* gates, void* y);
};

const SqueezeExciteTable& squeeze_excite_table_avx2();
const SqueezeExciteTable& squeeze_excite_table_avx512();
const SqueezeExciteTable& squeeze_excite_table_avx512_bf16();

}  // namespace lathe::cpu
