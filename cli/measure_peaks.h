// SPDX-License-Identifier: Apache-2.0
//
// The roof of the roofline, measured: a large matrix product in each type and a large copy-like pass over
// memory, built and run like any engine. That is the practical peak, what the best kernels of this build
// reach on this machine, and not a figure from a data sheet.
#pragma once

#include <vector>

#include "arguments/options.h"
#include "explorer/core/model.h"

namespace lathe::cli {

// At least `count` of the times are within `ratio` of the least.
bool agree(const std::vector<double>& times, int count, double ratio);

// A few seconds. The fastest of the runs counts: what slows a run down is not the machine's peak. Rounds of
// runs go on until three agree; a peak for which none did is listed as unstable.
explorer::Peaks measure_peaks(const SystemFlags& system);

}  // namespace lathe::cli
