// SPDX-License-Identifier: Apache-2.0
//
// For tests: runs a one-node graph through every supported tactic of a generated family and compares with what the operator
// means (evaluate_node): on the GPU when there is one, else in the emulator.
#pragma once

#include <string>
#include <vector>

#include "backend/check/layer_case.h"
#include "backend/cuda/own_tactic.h"

namespace lathe::cuda {

// How many tactics were run. Differences are test failures that name all of it. Cases that come together are compiled
// together, which is most of the time.
int check_generated(const GeneratedFamily& family, const std::vector<LayerCase>& layers);
// On a GPU: checks and prints the time of every supported tactic, with the bytes of its operands and its operations per
// second. Replays of a graph of 20 launches on the same buffers: small layers are served by the L2 cache.
void time_generated(const GeneratedFamily& family, const LayerCase& layer, std::string_view what);
// "name types: reason" of each refused tactic.
std::vector<std::string> generated_refusals(const GeneratedFamily& family, const LayerCase& layer);

}  // namespace lathe::cuda
