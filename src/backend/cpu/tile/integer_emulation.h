// SPDX-License-Identifier: Apache-2.0
//
// For tests: the products of bytes of CPUs that nobody here may have, with their instructions in software
// (tile/integer_emulated_avx2_test.cpp). Packing, padding, zero points and tails are those of the real ones.
#pragma once

#include "backend/cpu/tile/integer_table.h"

namespace lathe::cpu {

const IntegerTable& emulated_quads();
const IntegerTable& emulated_tiles();

}  // namespace lathe::cpu
