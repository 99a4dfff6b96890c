// SPDX-License-Identifier: Apache-2.0
//
// The reference evaluation of a layer with the types and formats of any tactic.
#pragma once

#include "backend/cpu/kernel.h"

namespace lathe::cpu {

std::unique_ptr<LayerKernel> make_reference(const LayerQuery& query, const Tactic& tactic);

}  // namespace lathe::cpu
