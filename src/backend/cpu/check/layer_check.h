// SPDX-License-Identifier: Apache-2.0
//
// For tests: runs a one-node graph through every supported tactic of a family, at every instruction set of
// this machine and with one to three members, and compares with what the operator means (evaluate_node).
#pragma once

#include <string>
#include <vector>

#include "backend/check/layer_case.h"
#include "backend/cpu/kernel.h"

namespace lathe::cpu {

// What CPUID says of this machine, never what a family makes of it: a test decides by them what must run
// here.
bool has_avx512();
bool has_avx512_bf16();  // there the kernels of AMX run as well, on tiles in software
bool has_amx_fp16();     // AMX and AVX512-FP16

// How many (tactic, formats, instruction set) were run. Differences are test failures that name all of it.
int check_layer(const TacticFamily& family, const LayerCase& layer);
// "name types: reason" of each refused tactic at the machine's best instruction set.
std::vector<std::string> refusals(const TacticFamily& family, const LayerCase& layer);

}  // namespace lathe::cpu
