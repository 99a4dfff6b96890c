// SPDX-License-Identifier: Apache-2.0
//
// The state of the device while something runs on it: the clocks and power that it is asked to hold, and the
// readings taken meanwhile.
#pragma once

#include <functional>

#include "nvml.h"

namespace lathe::cli {

struct RunState {
  std::string device;  // as of --device: "cpu", a GPU's number, or "" for GPU 0 when there is one
  GpuSettings settings;
  bool keep_clocks = false;  // --dont-lock-clocks
  bool print = false;        // --monitor
};

// Runs `run`, which says whether it was on a GPU, and returns the readings of that device (docs/schema,
// hardware file). Throws Input when settings are for a GPU that cannot be reached.
Json watch_run(const RunState& state, const std::function<bool()>& run);

}  // namespace lathe::cli
