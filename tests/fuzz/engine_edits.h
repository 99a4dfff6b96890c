// SPDX-License-Identifier: Apache-2.0
//
// Values in engine files, edited with the hashes made anew: what a malicious writer could make.
#pragma once

#include "worker.h"

namespace fuzz {

// Cases over engines for the CPU, and where this build has the CUDA backend also for a GPU that is only
// described by a file.
Case prepare_engine_edits(const Setup& setup);

}  // namespace fuzz
