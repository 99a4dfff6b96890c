// SPDX-License-Identifier: Apache-2.0
//
// The roof of the roofline, measured: a large matrix product in each type and a large copy-like pass over memory, built and
// run like any engine. That is the practical peak, what the best kernels of this build reach on this machine, and not a
// figure from a data sheet.
#pragma once

#include "explorer/core/model.h"
#include "arguments/options.h"

namespace lathe::cli {

// A few seconds. The fastest of the runs counts: what slows a run down is not the machine's peak.
explorer::Peaks measure_peaks(const SystemFlags& system);

}  // namespace lathe::cli
