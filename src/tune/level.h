// SPDX-License-Identifier: Apache-2.0
//
// What --builderOptimizationLevel means, in one table.
#pragma once

#include "tune/tune.h"

namespace lathe {

struct Effort {
  bool timed = true;
  int max_tactics = 0;
  int repetitions = 0;
  double budget_seconds = 0;
  bool last_resorts = false;  // reference tactics are rivals too
};
Effort effort_of(const TuneOptions& options);

}  // namespace lathe
