// SPDX-License-Identifier: Apache-2.0
//
// The FP32 product kernel of an instruction set. Not for files that are compiled for one.
#pragma once

#include "backend/cpu/kernel.h"
#include "backend/cpu/tile/gemm_table.h"

namespace lathe::cpu {

inline const GemmTable& gemm_table(Isa isa) {
  return isa == Isa::Avx2 ? gemm_table_avx2() : gemm_table_avx512();
}

}  // namespace lathe::cpu
