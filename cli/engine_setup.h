// SPDX-License-Identifier: Apache-2.0
//
// From options to an engine: parse and build, or load (and retarget when the file was made for another CPU).
#pragma once

#include <memory>

#include "arguments/options.h"
#include "arguments/words.h"
#include "base/json.h"
#include "builder/options.h"
#include "memory_use.h"
#include "plugin/registry.h"
#include "report/log.h"
#include "runtime/engine.h"

namespace lathe::cli {

std::shared_ptr<const Backend> open_device(const SystemFlags& system, bool tf32 = true);

// The custom operators of --staticPlugins and its like. `log` (null: nobody) gets a line for each library.
std::shared_ptr<plugin::Registry> open_plugins(const SystemFlags& system, Log* log,
                                               const std::vector<std::string>& to_serialize = {});

// --device, --cpuThreads and --cpuIsa and the flags of plugins of a command that has them, checked as
// trtexec's.
SystemFlags system_flags_of(const CommandWords& arguments);

// The library's options of a command line. `log` prints dumped graphs and must outlive the build.
BuildOptions make_build_options(const Options& options, std::vector<OptimizationProfile> profiles, Log& log);

struct EngineSetUp {
  std::shared_ptr<const Engine> engine;
  Json budget = nullptr;  // what the search of --budget found
};

// Throws Failure with trtexec's phrases.
EngineSetUp set_up_engine(const Options& options, std::shared_ptr<const Backend> backend,
                          std::shared_ptr<plugin::Registry> plugins, MemoryUse& memory, Log& log);

// Loads an engine file for a backend. When no section of the file fits, an untimed one is made, which `log`
// says.
std::shared_ptr<const Engine> load_engine(const std::string& file, std::shared_ptr<const Backend> backend,
                                          std::shared_ptr<plugin::Registry> plugins, Log& log);

}  // namespace lathe::cli
