// SPDX-License-Identifier: Apache-2.0
//
// For tests: the layer that families of convolutions in 16 bits are tried on.
#pragma once

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {

// A convolution without bias of `image` (N, C, H, W) to `channels`, with constant weights.
inline LayerCase convolution(const Conv& op, const Extents& image, int64_t channels, int emulated = 3) {
  LayerCase layer{
      .op = op,
      .inputs = {{.extents = image},
                 {.extents = {channels, image[1], op.kernel[0], op.kernel[1]}, .constant = true}}};
  layer.allowed_types = {DType::Float16, DType::BFloat16};
  layer.tolerance = 1e-5;
  layer.rounding = 1.1;
  layer.emulated = emulated;
  return layer;
}

}  // namespace lathe::cuda
