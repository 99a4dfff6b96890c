// SPDX-License-Identifier: Apache-2.0
//
// --exportSummary: what a run was and what it measured, as one JSON object for scripts (docs/trtexec.md).
#pragma once

#include "arguments/options.h"
#include "base/json_value.h"
#include "report/performance.h"
#include "runtime/engine.h"

namespace lathe::cli {

// `complete`: false when the run was interrupted. `budget`: what the search of --budget found, or null.
Json run_summary(const Options& options, Context& context, const PerformanceReport& report, bool complete,
                 const Json& budget);

}  // namespace lathe::cli
