// SPDX-License-Identifier: Apache-2.0
//
// The inference phase: contexts, inputs, the measured loop, and every report that follows.
#pragma once

#include <memory>
#include <optional>

#include "arguments/options.h"
#include "base/json_value.h"
#include "memory_use.h"
#include "plugin/registry.h"
#include "report/log.h"
#include "runtime/engine.h"

namespace lathe::cli {

// `budget`: for the summary, what the search of --budget found, or null.
void run_inference(const Options& options, std::shared_ptr<const Engine> engine, const Json& budget,
                   MemoryUse& memory, Log& log);

// --timeDeserialize.
void time_deserialization(const Options& options, std::shared_ptr<const Backend> backend,
                          std::shared_ptr<plugin::Registry> plugins, MemoryUse& memory, Log& log);

}  // namespace lathe::cli
