// SPDX-License-Identifier: Apache-2.0
//
// What a CPU is as a model, and what a layer is expected to take on it: what level 0 goes by where families
// were measured together.
#pragma once

#include "backend/cpu/kernel.h"

namespace lathe::cpu {

// At a nominal clock: expectations are compared with each other, and must not depend on the clock of the
// moment.
DeviceModel model_of(const Machine& machine);

// What a product with constant weights is expected to take, of a family that reaches `share_of_rate` of the
// vectors' rate and `share_of_memory` of the memory's where that is the limit. Only on CPUs without AVX-512,
// where the shares of all families of products were measured together (docs/measurements/products_avx2.md): 0
// elsewhere, and where the right operand is computed.
double expected_product_us(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                           double share_of_rate, double share_of_memory);

}  // namespace lathe::cpu
