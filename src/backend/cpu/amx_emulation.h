// SPDX-License-Identifier: Apache-2.0
//
// For tests: AMX's products with tiles in software (kernels/product_emulated_test.cpp). Needs AVX512-BF16.
#pragma once

#include "backend/cpu/kernels/amx_table.h"

namespace lathe::cpu {

const AmxTable& emulated_amx_table();

}  // namespace lathe::cpu
