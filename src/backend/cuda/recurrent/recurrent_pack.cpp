// SPDX-License-Identifier: Apache-2.0
//
// Weights that the run brings: a kernel for each packed block, in front of the layer's own. It reads the
// weights once in a run, as any layer does that has no second use for them.
#include "lathe_device_text/recurrent_pack.h"
#include "backend/cuda/recurrent/recurrent_plan.h"

namespace lathe::cuda {
namespace {

int64_t on_boundary(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace

RecurrentWeights recurrent_weights(const LayerQuery& query, const RecurrentPlan& plan) {
  const Node& node = query.layer();
  RecurrentWeights weights;
  weights.of_run =
      !query.graph.value(node.inputs[kW]).is_constant() || !query.graph.value(node.inputs[kR]).is_constant();
  if (!weights.of_run) return weights;
  weights.places.push_back(weights.bytes);
  weights.bytes += on_boundary(dtype_bytes(plan.type, recurrent_inputs_count(plan.sizes)));
  for (const RecurrentRows& rows : plan.products) {
    weights.places.push_back(weights.bytes);
    weights.bytes += on_boundary(dtype_bytes(plan.type, recurrent_rows_count(plan, rows)));
  }
  return weights;
}

std::string RecurrentWeights::pointer(KernelBuilder& b, size_t block, std::string_view type) const {
  if (of_run) return b.scratch(places.at(block), type);
  return b.packed(block == 0 ? "w" : "r" + std::to_string(block - 1), type);
}

namespace {

KernelSource pack_kernel(const LayerQuery& query, const Tactic& tactic, const RecurrentPlan& plan,
                         const RecurrentWeights& weights, size_t block, int64_t count,
                         std::vector<std::pair<std::string_view, int64_t>> constants) {
  KernelBuilder b =
      start_kernel(query, tactic, block == 0 ? "recurrent_pack_w" : "recurrent_pack_r", plan.type);
  const size_t input = block == 0 ? kW : kR;
  const std::string type(storage_name(plan.type));
  constants.emplace_back("COUNT", count);
  b.constants(constants);
  b.global("typedef " + type + " T;");
  b.line("#define FROM " + b.input(input, tactic.inputs[input].dtype) + "\n#define TO " +
         weights.pointer(b, block, type));
  b.line(block == 0 ? device_text::recurrent_pack::kColumns : device_text::recurrent_pack::kRows);
  b.kernel().grid[0] = ceil_div(Dim(count), Dim(256));
  return b.finish();
}

}  // namespace

std::vector<KernelSource> recurrent_pack_kernels(const LayerQuery& query, const Tactic& tactic,
                                                 const RecurrentPlan& plan, const RecurrentWeights& weights) {
  const RecurrentSizes& s = plan.sizes;
  const int64_t count = recurrent_inputs_count(s);
  std::vector<KernelSource> kernels = {
      pack_kernel(query, tactic, plan, weights, 0, count,
                  {{"N", s.gates * s.hidden}, {"I", s.width}, {"KP", count / recurrent_inputs_rows(s)}})};
  const int64_t elements = 16 / dtype_size(plan.type);
  for (size_t i = 0; i < plan.products.size(); ++i) {
    const RecurrentRows& rows = plan.products[i];
    const int64_t of_warp = int64_t{rows.fragments()} * 32 * elements;
    kernels.push_back(pack_kernel(query, tactic, plan, weights, i + 1, recurrent_rows_count(plan, rows),
                                  {{"HIDDEN", s.hidden},
                                   {"FIRST_GATE", rows.first_gate},
                                   {"INPUTS", rows.gates},
                                   {"EACH", rows.each},
                                   {"ELEMENTS", elements},
                                   {"OF_WARP", of_warp},
                                   {"OF_BLOCK", plan.warps * of_warp},
                                   {"PART", plan.units},
                                   {"WARP_UNITS", plan.warp_units},
                                   {"TENSOR", plan.has_tensor_cores()},
                                   {"JOINS", plan.joins_gates()}}));
  }
  return kernels;
}

}  // namespace lathe::cuda
