// SPDX-License-Identifier: Apache-2.0
//
// Why layers compute in a higher precision than the model or the build allows, from what the tuner tried:
// `lathe why`, and the explorer's findings.
#pragma once

#include "report/layer_info.h"

namespace lathe {

// Fills `note` of the report's layers, which are those of `variant` alone, with their tuning.
void add_precision_notes(LayerReport& report, const PlanVariant& variant);

}  // namespace lathe
