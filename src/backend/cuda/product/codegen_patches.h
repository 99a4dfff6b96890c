// SPDX-License-Identifier: Apache-2.0
//
// Convolutions whose windows tile the image (kernel = stride, no pads: the patch embedding of a vision
// transformer), on the planes of an image as it comes in: a kernel lays each patch out as a row, and the
// layer is a plain product.
#pragma once

#include "backend/cuda/codegen/implicit_gemm.h"

namespace lathe::cuda {

// No, with the reason, when the layer is no such convolution.
Support tiles_the_image(const LayerQuery& query);
// Rows [n, y, x][channel, window row, window column] in the type of the result, in scratch memory from 0 on;
// windows whose rows are multiples of 8.
KernelSource patch_kernel(const LayerQuery& query, const Tactic& tactic);
Dim patch_bytes(const LayerQuery& query);

}  // namespace lathe::cuda
