// SPDX-License-Identifier: Apache-2.0
//
// What a stream computes on: the files of --loadInputs, the values of shape tensors, random values for the rest.
#pragma once

#include "arguments/options.h"
#include "inference.h"
#include "report/log.h"

namespace lathe::cli {

// `announce`: a line per input and output.
void fill_inputs(const Options& options, InferenceStream& stream, int profile, bool announce, Log& log);

}  // namespace lathe::cli
