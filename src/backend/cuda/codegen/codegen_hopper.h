// SPDX-License-Identifier: Apache-2.0
//
// Primitives of compute capability 9.0 as device text: the bulk tensor copy engine (TMA), barriers in shared
// memory that count its bytes, and products of warpgroups (wgmma) whose operands lie in shared memory.
// emulator/hopper.h says what they mean. Tiles are rows of 64 16-bit elements (128 bytes, swizzled), at
// addresses that are multiples of 1024.
#pragma once

#include <string>
#include <string_view>

#include "ir/dtype.h"

namespace lathe::cuda {

struct Device;

// For kernels that multiply tiles of 64 x `n` of that type: multiply_tile_f16 or _bf16(float (&d)[n / 2], a,
// b), or multiply_tile_u8(int (&d)[n / 2], a, b) for bytes times signed bytes.
std::string hopper_primitives(DType type, int n);
// Behind those, for a left operand in registers and a right one whose rows are K: multiply_rows_f16 or
// _bf16(float (&d)[n / 2], const u32 (&a)[4], b), n = 64.
std::string hopper_rows_primitive(DType type, int n);
// Behind those: multiply_kept_f16 or _bf16(d, a, b), for a left operand in registers.
std::string hopper_kept_primitive(DType type, int n);
// "f16", "bf16" or "u8", as the names above end.
std::string multiplied_name(DType type);
// Copies, barriers and clusters alone.
std::string hopper_primitives();
// Behind those: send_words(rank, own, words, barrier) stores 16 bytes in block `rank` of the cluster where
// `own` is in this one; they arrive at that block's barrier. What a block gets takes 0.7 ns a message.
std::string_view hopper_send_primitive();

// What GROUPS warpgroups do with the stages that arrive from `base` on: `sum`, each thread's part of 64 rows
// of BN columns, grows over `tiles` steps of K; needs STAGES, STAGE, ROWS, MULTIPLY and the barriers `full`
// and `empty`.
std::string_view multiply_steps();
// The same for blocks that stay: STEPS steps of one tile by warpgroup `group`, from stage `s` on, where the
// last tile has ended, in its `parity`.
std::string_view multiply_next_tile();
// What becomes of the sums of GROUPS warpgroups, each 64 rows of BN columns in `sum`. First `tile`, in shared
// memory from `base` on: the rows of all, BN + 8 floats apart.
std::string_view tile_to_shared();
// Then each warp stores its own rows through place(pixel(row), column) and GemmWriter's fetch() and apply(),
// V columns at a time and several such vectors together: their operands are loaded before the first is stored
// (a load behind a store that may alias waits for it), the first ones where fetch_own_rows() stands when
// EARLY is set: in front of the products.
std::string_view fetch_own_rows();
std::string_view store_own_rows();

}  // namespace lathe::cuda
