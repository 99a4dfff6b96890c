// SPDX-License-Identifier: Apache-2.0
//
// For tests: runs a one-node graph through every supported tactic of a family, at every instruction set of this machine
// and with one to three members, and compares with what the operator means (evaluate_node).
#pragma once

#include <string>
#include <vector>

#include "backend/check/layer_case.h"
#include "backend/cpu/kernel.h"

namespace lathe::cpu {

// How many (tactic, formats, instruction set) were run. Differences are test failures that name all of it.
int check_layer(const TacticFamily& family, const LayerCase& layer);
// "name types: reason" of each refused tactic at the machine's best instruction set.
std::vector<std::string> refusals(const TacticFamily& family, const LayerCase& layer);
// Microseconds of the fastest of many runs per supported tactic at the best instruction set: "name types: 12.3 us".
std::vector<std::string> time_layer(const TacticFamily& family, const LayerCase& layer, int threads);

}  // namespace lathe::cpu
