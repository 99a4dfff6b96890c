// SPDX-License-Identifier: Apache-2.0
//
// What each layer of a report must do at least, and what each ONNX node in it would: the figures that the
// explorer divides measured times by, and by which a fused layer opens into its nodes.
#pragma once

#include "report/layer_info.h"

namespace lathe {

// Fills `costs` of the report's layers from `first` on, which are those of `variant`. Layers whose shapes
// `symbols` does not determine get none.
void add_layer_costs(LayerReport& report, size_t first, const Plan& plan, const PlanVariant& variant,
                     const SymbolValues& symbols);

}  // namespace lathe
