// SPDX-License-Identifier: Apache-2.0
//
// Runs an engine at shapes that a caller might give: those of its profiles, and others.
#pragma once

#include "random.h"
#include "runtime/engine.h"

namespace fuzz {

// A few runs with random data in memory of exactly the right size. Input errors of single runs are the answer
// to their shapes and end only that run; everything else is thrown. Engines and shapes that want more than
// `most_bytes` are not run.
void run_engine(const lathe::Engine& engine, Random& random, int64_t most_bytes = int64_t{64} << 20);

}  // namespace fuzz
