// SPDX-License-Identifier: Apache-2.0
//
// trtexec --budget: the fastest engine whose outputs stay near those of the float32 model.
#pragma once

#include <memory>

#include "arguments/options.h"
#include "base/json_value.h"
#include "builder/builder.h"
#include "report/log.h"

namespace lathe::cli {

// Throws Input for a text that is no budget and for a calibration that has no samples; before a model is
// read.
void check_budget(const Options& options);

// `network`: the model of `options`, float32. `build`: for all engines; what is kept is one that was judged.
// `found` becomes what the search found. Throws Input where nothing fits.
std::shared_ptr<const Engine> build_within_budget(const Options& options, const Network& network,
                                                  Builder& builder, const BuildOptions& build,
                                                  const std::function<void(Network&)>& prepare, Json& found,
                                                  Log& log);

}  // namespace lathe::cli
