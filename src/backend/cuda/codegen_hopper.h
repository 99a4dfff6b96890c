// SPDX-License-Identifier: Apache-2.0
//
// Primitives of compute capability 9.0 as device text: the bulk tensor copy engine (TMA), barriers in shared memory that
// count its bytes, and products of warpgroups (wgmma) whose operands lie in shared memory. emulator/hopper.h says what they
// mean. Tiles are rows of 64 16-bit elements (128 bytes, swizzled), at addresses that are multiples of 1024.
#pragma once

#include <string>

#include "ir/dtype.h"

namespace lathe::cuda {

// For kernels that multiply tiles of 64 x `n` of that type: multiply_tile_f16 or _bf16(float (&d)[n / 2], a, b).
std::string hopper_primitives(DType type, int n);
// Behind those, for a left operand in registers and a right one whose rows are K: multiply_rows_f16 or _bf16(float (&d)[n / 2],
// const u32 (&a)[4], b), n = 64.
std::string hopper_rows_primitive(DType type, int n);

}  // namespace lathe::cuda
