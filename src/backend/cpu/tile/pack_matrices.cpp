// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/tile/pack_matrices.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/vector/transpose_tile.h"

namespace lathe::cpu {

void pack_panel(const float* b, bool transposed, int64_t k, int64_t n, int64_t first, int64_t panel,
                float* out) {
  const int64_t count = std::min(panel, n - first);
  if (transposed) {
    transpose_4byte_avx2(b + first * k, k, out, panel, count, k);
  } else {
    for (int64_t i = 0; i < k; ++i)
      std::memcpy(out + i * panel, b + i * n + first, static_cast<size_t>(count) * 4);
  }
  if (count == panel) return;
  for (int64_t i = 0; i < k; ++i) std::fill(out + i * panel + count, out + (i + 1) * panel, 0.0f);
}

std::vector<std::byte> pack_matrices(const Tensor& weights, bool transposed, int64_t matrices, int64_t k,
                                     int64_t n, int64_t panel, int64_t extra_floats) {
  const Tensor wide = weights.dtype() == DType::Float32
                          ? weights
                          : Tensor::from_doubles(DType::Float32, weights.extents(), weights.to_doubles());
  const int64_t panels = (n + panel - 1) / panel;
  std::vector<std::byte> bytes(static_cast<size_t>(matrices * panels * k * panel + extra_floats) *
                               sizeof(float));
  auto* out = reinterpret_cast<float*>(bytes.data());
  for (int64_t i = 0; i < matrices; ++i)
    for (int64_t p = 0; p < panels; ++p, out += k * panel)
      pack_panel(wide.data<float>().data() + i * k * n, transposed, k, n, p * panel, panel, out);
  return bytes;
}

}  // namespace lathe::cpu
