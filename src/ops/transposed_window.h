// SPDX-License-Identifier: Apache-2.0
//
// The geometry of ConvTranspose at concrete extents, for the oracle and for kernels.
#pragma once

#include "ops/window.h"

namespace lathe {

// One axis for each spatial dim: `input` is that of x, `output` that of the result. Tap k of input position i
// adds to result position i * stride - pad_begin + k * dilation.
std::vector<WindowAxis> resolve_transposed(const ConvTranspose& op, const Ints& kernel, const Extents& input);

}  // namespace lathe
