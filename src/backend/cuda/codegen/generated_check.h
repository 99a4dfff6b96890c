// SPDX-License-Identifier: Apache-2.0
//
// For tests: runs a one-node graph through every supported tactic of a generated family and compares with
// what the operator means (evaluate_node): on the GPU when there is one, else in the emulator.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "backend/check/layer_case.h"
#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

// How many tactics there were to run; without a GPU every third was (all with LATHE_TEST_ALL=1). Differences
// are test failures that name all of it. Cases that come together are compiled together.
int check_generated(const GeneratedFamily& family, const std::vector<LayerCase>& layers);
// The same for layers some of whose values lie on grids of bytes, through every tactic that stores one of
// them so. Each graph has one node, which may have float16, too (backend/check/grid_case.h). Returns "name
// input types -> output types" of what there was to run. `listed`: the GPU whose kernels they are, where that
// is not the one at hand.
std::vector<std::string> check_generated_grids(const GeneratedFamily& family,
                                               const std::vector<std::string>& graphs, int emulated = 100,
                                               std::shared_ptr<const Device> listed = nullptr);
// "name types: reason" of each refused tactic.
std::vector<std::string> generated_refusals(const GeneratedFamily& family, const LayerCase& layer);
std::vector<std::string> generated_grid_refusals(const GeneratedFamily& family, const std::string& graph);

inline const std::vector<DType> kHalves = {DType::Float16, DType::BFloat16};

// Indices from either end.
inline CheckedInput indices(Extents extents, double below, DType type = DType::Int64) {
  return {.dtype = type, .extents = std::move(extents), .low = -below, .high = below - 0.5};
}

// Whether any of them begins with the name and has the types.
inline bool has(const std::vector<std::string>& ran, const std::string& name, const std::string& types) {
  return std::any_of(ran.begin(), ran.end(), [&](const std::string& r) {
    return r.starts_with(name) && r.find(types) != std::string::npos;
  });
}

}  // namespace lathe::cuda
