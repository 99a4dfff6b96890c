// SPDX-License-Identifier: Apache-2.0
//
// --keepState: which outputs are the inputs of the next query, what they begin with, and what the log says of
// them.
#pragma once

#include "arguments/options.h"
#include "report/log.h"
#include "runtime/engine.h"

namespace lathe::cli {

// State begins with zeros, and without rows where it grows. An input that --shapes or --loadInputs names, or
// that has the length of one that they name, begins with values of the file or random ones.
void keep_state(Context& context, const Options& options, bool announce, Log& log);

// A line for each pair. Shapes are set.
void print_state(const Context& context, Log& log);

}  // namespace lathe::cli
