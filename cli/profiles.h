// SPDX-License-Identifier: Apache-2.0
//
// Between the command line's shapes and the engine's: optimization profiles for a build, input shapes for a
// run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/options.h"
#include "builder/io_formats.h"
#include "builder/network.h"
#include "failure.h"
#include "plan/optimization_profile.h"
#include "report/log.h"
#include "runtime/engine.h"

namespace lathe::cli {

// What --shapes and the like say of inputs whose elements decide shapes: as many numbers as there are
// elements are their values.
std::vector<OptimizationProfile> shape_input_values(const Options& options, const Network& network);

// Complete profiles, one per --profile. Throws Failure with trtexec's phrases for unknown inputs and static
// models.
std::vector<OptimizationProfile> make_profiles(const Options& options, const std::vector<TensorInfo>& inputs,
                                               const std::vector<TensorInfo>& outputs, Log& log);

// Sets the shapes of a run: --shapes, else the profile's opt. Prints a line per dynamic input.
void set_run_shapes(Context& context, const InferenceFlags& flags, Log& log);

// Names that no input has: Failure with the phrase for `flag`.
void check_input_names(const std::vector<std::string>& names, const std::vector<TensorInfo>& inputs,
                       const std::string& flag);

// Types and formats of --inputIOFormats or --outputIOFormats, one item each or one for all. Throws Input.
std::map<std::string, IoType, std::less<>> io_types(std::string_view flag,
                                                    const std::vector<IoFormat>& formats,
                                                    const std::vector<TensorInfo>& tensors);

// Prints a graph for --dumpAfter.
std::function<void(std::string_view, const Graph&)> dump_graph(Log& log);

}  // namespace lathe::cli
