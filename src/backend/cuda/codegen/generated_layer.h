// SPDX-License-Identifier: Apache-2.0
//
// From generated sources to what the backend runs: one LayerKernel for all families that are described by a
// GeneratedFamily.
#pragma once

#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/kernel.h"

namespace lathe::cuda {

std::unique_ptr<LayerKernel> make_generated_layer(LayerSource source, const Device& device,
                                                  const PackContext& pack);

// The family as the backend knows it: `return generated_tactics<pointwise_family>();`
template <GeneratedFamily (*family)()>
TacticFamily generated_tactics() {
  return {
      .runner = family().runner,
      .list =
          [](const LayerQuery& query, const Device& device) {
            return with_known_bytes(query, device, family().list(query, device));
          },
      .make =
          [](const LayerQuery& query, const Tactic& tactic, const Device& device, const PackContext& pack) {
            return make_generated_layer(family().generate(query, tactic, device), device, pack);
          },
      .sources = [](const LayerQuery& query, const Tactic& tactic,
                    const Device& device) { return family().generate(query, tactic, device).kernels; },
      .packing_key = family().packing_key};
}

// A launch of one generated kernel at concrete extents.
class GeneratedLaunch {
 public:
  GeneratedLaunch(const KernelSource& source, const GpuKernel& kernel, const SymbolValues& symbols);
  // The forms of a kernel that leads or follows.
  void set_forms(const GpuKernel& leads, const GpuKernel& follows) { forms_ = {&leads, &follows}; }
  // `blocks`: addresses of packed blocks by name. `order`: this launch's. Nothing when it is empty.
  void visit(const LayerArgs& args, const std::map<std::string, DeviceMemory>& blocks, LaunchOrder order,
             const LaunchVisitor& visitor) const;
  void enqueue(const LayerArgs& args, const std::map<std::string, DeviceMemory>& blocks, CUstream stream,
               LaunchOrder order = {}) const;

  bool is_empty() const { return shape_.grid[0] == 0 || shape_.grid[1] == 0 || shape_.grid[2] == 0; }

 private:
  const KernelSource& source_;
  const GpuKernel& kernel_;
  std::array<const GpuKernel*, 2> forms_ = {};
  LaunchShape shape_;
  std::vector<int64_t> numbers_;  // per argument: its number, or offset in scratch
  // A tensor map but for its address.
  struct View {
    std::vector<cuuint64_t> extents, strides;  // strides in bytes, from the second dim on
    std::vector<cuuint32_t> box;
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    bool windows = false;
    // Of windows: the corners relative to the first and the last pixel, and the steps of all dims.
    std::vector<int> lower, upper;
    std::vector<cuuint32_t> steps;
  };
  std::map<size_t, View> views_;  // by argument

  CUtensorMap tensor_map(const View& view, const void* address) const;
};

}  // namespace lathe::cuda
