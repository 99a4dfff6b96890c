// SPDX-License-Identifier: Apache-2.0
//
// Times whole engines against each other, through the timing cache like everything else that decides a build.
#pragma once

#include <vector>

#include "builder/pipeline.h"

namespace lathe {

// Milliseconds per variant at the opt shapes, in one interleaved race.
std::vector<double> time_engines(const std::vector<const BuiltVariant*>& variants, const Pipeline& pipeline,
                                 int repetitions);

}  // namespace lathe
