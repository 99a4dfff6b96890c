// SPDX-License-Identifier: Apache-2.0
//
// --tacticSources: which libraries the tuner may take tactics from. TensorRT's names for NVIDIA's libraries,
// and ONEDNN for ours on a CPU. EDGE_MASK_CONVOLUTIONS and JIT_CONVOLUTIONS name kernels inside of TensorRT,
// which have no counterpart here.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lathe::cli {

using TacticSwitches = std::vector<std::pair<std::string, bool>>;

// "-CUDNN,+ONEDNN" as switches. Throws Input for an unknown name, a missing sign or both signs.
TacticSwitches parse_tactic_sources(const std::string& text);
// The sources among them that switch nothing here.
std::vector<std::string> sources_without_effect(const TacticSwitches& switches);
// The runners of the sources that are switched off, as logs show them ("CudnnConvolution").
std::set<std::string, std::less<>> disabled_runners(const TacticSwitches& switches);

}  // namespace lathe::cli
