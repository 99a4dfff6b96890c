// SPDX-License-Identifier: Apache-2.0
//
// For tests: runs the layer of a one-node graph, some of whose values lie on grids of bytes, through every
// tactic of a family that stores one of them so, and compares with the oracle on the same integers.
#pragma once

#include <string>
#include <vector>

#include "backend/cpu/kernel.h"

namespace lathe::cpu {

// `graph` as text; random inputs. Kernels of each instruction set that this machine has, and those of quads
// and tiles in software; one to three threads. Bytes may differ by one step, and one in 200 of them does
// where sums are scaled in FP32; floats differ by rounding alone. Returns what ran, as "name input types ->
// output types [kernels]", without repetitions for numbers of threads.
std::vector<std::string> check_grids(const TacticFamily& family, const std::string& graph);

// "name types: reason" of each refused tactic.
std::vector<std::string> grid_refusals(const TacticFamily& family, const std::string& graph);

// How many of the descriptions have this part.
int64_t count_with(const std::vector<std::string>& descriptions, std::string_view part);

}  // namespace lathe::cpu
