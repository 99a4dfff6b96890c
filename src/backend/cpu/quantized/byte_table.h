// SPDX-License-Identifier: Apache-2.0
//
// A function of the bytes of a grid, evaluated once for each of them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/quantized/look_up.h"
#include "backend/integer_operands.h"

namespace lathe::cpu {

using ByteTable = std::array<uint8_t, 256>;

// `function` gives the results for all 256 numbers of `from`, in their order; the table has the nearest bytes
// of `to`. NaN is zero.
ByteTable tabulate(const ByteGrid& from, const ByteGrid& to,
                   const std::function<std::vector<double>(const std::vector<double>&)>& function);

inline bool looks_up_in_vectors(const Machine& machine) {
  return machine.has(CpuFeature::Vbmi);
}
inline LookUp look_up_of(const Machine& machine) {
  return looks_up_in_vectors(machine) ? look_up_avx512_vbmi : look_up;
}

}  // namespace lathe::cpu
