// SPDX-License-Identifier: Apache-2.0
//
// For tests: AMX's products with tiles in software (tile/product_emulated_test.cpp). Needs AVX512-BF16.
#pragma once

#include "backend/cpu/tile/amx_table.h"

namespace lathe::cpu {

const AmxTable& emulated_amx_table();

}  // namespace lathe::cpu
