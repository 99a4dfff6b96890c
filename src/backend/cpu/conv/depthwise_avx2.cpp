// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution for AVX2.
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/conv/depthwise_table.h"
#include "backend/cpu/vector/loads.inc"
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/activation.inc"
//
#include "backend/cpu/vector/rounding.inc"
//
namespace lathe::cpu {
namespace {
using DepthwiseBf16 = LoadBf16;
template <Activation kActivation>
inline Vec activate_bf16(const RegisterTail& tail, Vec x) {
  return activate<kActivation>(tail, x);
}
}  // namespace
}  // namespace lathe::cpu

#include "backend/cpu/conv/depthwise.inc"

namespace lathe::cpu {
const DepthwiseTable& depthwise_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
