// SPDX-License-Identifier: Apache-2.0
//
// Permutations between (N, spatial..., C) and (N, C, spatial...).
#pragma once

#include "ir/op.h"

namespace lathe::onnx {

Ints channels_first(int64_t rank);
Ints channels_last(int64_t rank);

}  // namespace lathe::onnx
