// SPDX-License-Identifier: Apache-2.0
//
// An engine's layers and times in the words of other tools, whatever dialect they were read in: so that a
// dump of TensorRT 11, or of ours, opens in the tools that people have.
#pragma once

#include "base/json.h"
#include "explorer/core/model.h"

namespace lathe::explorer {

struct ForeignFiles {
  Json layers, profile;  // profile: null without times
};

// For NVIDIA's engine explorer (trex), which reads TensorRT 8 to 10: docs/explorer.md, "Other outputs".
ForeignFiles trex_files(const EngineData& engine);

// For TensorRT's trt-perf-analysis: a bare list of layers with unique names, each tensor written once, a time
// for every layer.
ForeignFiles perf_analysis_files(const EngineData& engine);

}  // namespace lathe::explorer
