// SPDX-License-Identifier: Apache-2.0
//
// What an engine is made of, as far as asked for: layers and optimization profiles.
#pragma once

#include "arguments/options.h"
#include "report/log.h"
#include "runtime/engine.h"

namespace lathe::cli {

// --dumpLayerInfo, --exportLayerInfo, --dumpOptimizationProfile. `context` gives run-time dims; null: none.
void report_engine(const Options& options, const Engine& engine, Context* context, Log& log);

// The layers after a build, for the verbose log: in the words of TensorRT 8 and of TensorRT 10.
void report_built_engine(const Engine& engine, Log& log);

}  // namespace lathe::cli
