// SPDX-License-Identifier: Apache-2.0
//
// Times whole engines against each other, through the timing cache like everything else that decides a build.
#pragma once

#include <string>
#include <vector>

#include "builder/pipeline.h"

namespace lathe {

// Sets measured_ms of each variant, in one interleaved race, and tells the observer how far the sum of its
// layers was off. The cache keeps the times of a variant per `race`.
void time_engines(const std::vector<BuiltVariant*>& variants, const Pipeline& pipeline,
                  const std::string& race = {});

struct RivalEngine {
  std::string label;  // in the log
  BuiltVariant built;
};

// Times the rivals and returns the fastest; of equals, the one that is named first. One line tells all times
// and what was kept.
BuiltVariant fastest_engine(std::vector<RivalEngine> rivals, const Pipeline& pipeline,
                            const std::string& race = {});

}  // namespace lathe
