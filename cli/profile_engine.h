// SPDX-License-Identifier: Apache-2.0
//
// Runs an engine for the explorer: trtexec's two runs (with and without times per layer) into a temporary
// folder, and what they wrote as the explorer's input files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "commands.h"
#include "explorer/core/readers.h"

namespace lathe::cli {

// Runs trtexec with its log in `log_file`. Throws Input with its error lines when it fails.
void run_trtexec_logged(const Words& words, const std::filesystem::path& log_file);

// Whether the run of this log was on a GPU.
bool ran_on_gpu(const std::filesystem::path& log_file);

// `run_flags`: trtexec's flags for the run (--shapes=..., --iterations=...). The files are called after the
// engine.
std::vector<explorer::InputFile> profile_engine(const std::string& engine, const Words& run_flags);

}  // namespace lathe::cli
