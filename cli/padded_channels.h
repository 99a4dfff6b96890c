// SPDX-License-Identifier: Apache-2.0
//
// Channels that memory pads (hwc8, hwc16, dhwc8): files and random numbers have the order of memory, and no
// padding.
#pragma once

#include "ir/format.h"
#include "ir/tensor.h"

namespace lathe::cli {

bool pads_channels(const Format& format);
// `values` has the extents of the tensor and the order of memory. Padding is zero.
void pad_channels(const Tensor& values, const Format& format, std::byte* memory);
Tensor without_padding(const std::byte* memory, DType dtype, const Extents& extents, const Format& format);

}  // namespace lathe::cli
