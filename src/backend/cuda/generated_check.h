// SPDX-License-Identifier: Apache-2.0
//
// For tests: runs a one-node graph through every supported tactic of a generated family and compares with what the operator
// means (evaluate_node): on the GPU when there is one, else in the emulator.
//
// Random values have few mantissa bits, so that 16-bit tactics get the same inputs as the oracle; their results may then
// differ by one rounding of the result.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/own_tactic.h"

namespace lathe::cuda {

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
  // Roundings to 16 bits between input and result, for 16-bit types.
  double rounding = 1;
  // The first dim of inputs that have the rank and batch of input 0 is a symbol: a kernel made for all batches.
  bool dynamic_batch = false;
  TensorType from, to;  // of a Reformat
  // The emulator is slow: it runs this many tactics of each type and format.
  int emulated = 100;
};

// How many tactics were run. Differences are test failures that name all of it. Cases that come together are compiled
// together, which is most of the time.
int check_generated(const GeneratedFamily& family, const std::vector<LayerCase>& layers);
// On a GPU: checks and prints the time of every supported tactic, with the bytes of its operands and its operations per
// second. Replays of a graph of 20 launches on the same buffers: small layers are served by the L2 cache.
void time_generated(const GeneratedFamily& family, const LayerCase& layer, std::string_view what);
// "name types: reason" of each refused tactic.
std::vector<std::string> generated_refusals(const GeneratedFamily& family, const LayerCase& layer);

}  // namespace lathe::cuda
