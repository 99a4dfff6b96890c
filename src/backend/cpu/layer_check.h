// SPDX-License-Identifier: Apache-2.0
//
// For tests: runs a one-node graph through every supported tactic of a family, at every instruction set of this machine
// and with one to three members, and compares with what the operator means (evaluate_node).
//
// Random values have few mantissa bits, so that BF16 and FP16 tactics get the same inputs as the oracle; their results may
// then differ by one rounding of the result.
#pragma once

#include <string>
#include <vector>

#include "backend/cpu/kernel.h"
#include "ir/op.h"
#include "ir/pointwise.h"

namespace lathe::cpu {

struct CheckedInput {
  DType dtype = DType::Float32;
  Extents extents;
  bool constant = false;
  double low = -2, high = 2;
  bool absent = false;
};

struct LayerCase {
  Op op;
  std::vector<CheckedInput> inputs;
  PointwiseProgram epilogue;
  std::vector<CheckedInput> operands;  // of the epilogue
  size_t outputs = 1;
  std::vector<DType> allowed_types;
  // Allowed difference relative to the largest result, times the tactic's error factor, for FP32 results.
  double tolerance = 2e-6;
};

// How many (tactic, formats, instruction set) were run. Differences are test failures that name all of it.
int check_layer(const TacticFamily& family, const LayerCase& layer);
// "name types: reason" of each refused tactic at the machine's best instruction set.
std::vector<std::string> refusals(const TacticFamily& family, const LayerCase& layer);
// Microseconds of the fastest of many runs per supported tactic at the best instruction set: "name types: 12.3 us".
std::vector<std::string> time_layer(const TacticFamily& family, const LayerCase& layer, int threads);

}  // namespace lathe::cpu
