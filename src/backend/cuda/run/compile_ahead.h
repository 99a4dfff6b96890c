// SPDX-License-Identifier: Apache-2.0
//
// Compiles the kernels of tactics that the tuner will time, on threads of its own while the first ones are
// timed: compiling takes 0.05 to 0.5 s a kernel, timing milliseconds, and a build times a thousand tactics.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/kernel.h"

namespace lathe::cuda {

// Begins at once, in the order of `tasks`; the object's end waits for what is being compiled and drops the
// rest. What does not compile is left for the tuner to find out.
std::unique_ptr<BackgroundWork> compile_ahead(std::vector<TimingTask> tasks,
                                              const std::vector<TacticFamily>& families,
                                              std::shared_ptr<const Device> device);

}  // namespace lathe::cuda
