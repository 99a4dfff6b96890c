// SPDX-License-Identifier: Apache-2.0
//
// What a layer has to compute and to move at the shapes that it is tuned for: what a time is expected from
// before anything runs.
#pragma once

#include "backend/tactic.h"

namespace lathe {

struct LayerWork {
  double ops = 0;    // multiplications and additions
  double bytes = 0;  // every operand once, as the tactic stores it; packed constants in the model's type
};
LayerWork work_of(const LayerQuery& query, const Tactic& tactic);

}  // namespace lathe
