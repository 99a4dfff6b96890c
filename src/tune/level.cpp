// SPDX-License-Identifier: Apache-2.0
#include "tune/level.h"

#include <algorithm>
#include <array>
#include <limits>

namespace lathe {

Effort effort_of(const TuneOptions& options) {
  constexpr int kAll = std::numeric_limits<int>::max();
  constexpr double kUnlimited = 1e9;
  // Level 3 has to build a ResNet-50 in 40 s on two cores, all stages included.
  const std::array<Effort, 6> levels = {{
      {.timed = false, .max_tactics = 1, .repetitions = 0, .budget_seconds = 0},
      {.max_tactics = 3, .repetitions = 3, .budget_seconds = 6},
      {.max_tactics = 8, .repetitions = 8, .budget_seconds = 15},
      {.max_tactics = 24, .repetitions = 20, .budget_seconds = 26},
      {.max_tactics = 64, .repetitions = 32, .budget_seconds = 180},
      {.max_tactics = kAll, .repetitions = 64, .budget_seconds = kUnlimited, .last_resorts = true},
  }};
  Effort effort = levels[static_cast<size_t>(std::clamp(options.level, 0, 5))];
  if (options.max_tactics > 0) effort.max_tactics = options.max_tactics;
  // --avgTiming=8 is the default that the table is made for.
  effort.repetitions = std::max(1, effort.repetitions * std::max(1, options.avg_timing) / 8);
  if (options.budget_seconds >= 0) effort.budget_seconds = options.budget_seconds;
  return effort;
}

}  // namespace lathe
