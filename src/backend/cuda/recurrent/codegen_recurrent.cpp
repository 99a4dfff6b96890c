// SPDX-License-Identifier: Apache-2.0
//
// RNN, GRU and LSTM: a product of all steps of x with w, and one kernel for all steps.
// The state never leaves the multiprocessors: a cluster of blocks keeps it for a few sequences, with the rows
// of r in registers and shared memory (recurrent_plan.h). Weights are packed for that, constants at build and
// others by a kernel in each run. 16-bit types run on tensor cores, which multiply
// eight sequences in the time of one; sums and the state of a thread's own hidden values are FP32. All sums
// are added in a fixed order.
//
// The floor of a step is not bytes or operations but the way of the new state through the cluster, about 0.4
// us; 256 hidden values in eight blocks add 0.13 us of multiply-adds. docs/measurements/recurrent_cuda.md has
// the figures.
#include "backend/cuda/codegen/implicit_gemm.h"
#include "backend/cuda/recurrent/recurrent_plan.h"
#include "base/error.h"
#include "ir/symbol_extents.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRecurrentRunner = "Recurrent";

struct RecurrentVariant {
  int blocks = 1, sequences = 1;
  TacticParams params() const { return {{"blocks", blocks}, {"sequences", sequences}}; }
  std::string name() const {
    return "cuda_recurrent_b" + std::to_string(blocks) + "_s" + std::to_string(sequences);
  }
};

// Clusters of more than eight blocks are for GPUs that promise them: those of Hopper that are whole.
bool can_have(int blocks, const DeviceProperties& gpu) {
  if (blocks == 1) return true;
  if (!gpu.has_clusters()) return false;
  return blocks <= 8 || (gpu.is_hopper() && gpu.multiprocessors >= 100);
}

std::vector<RecurrentVariant> recurrent_variants(const LayerQuery& query, DType type,
                                                 const DeviceProperties& gpu) {
  const RecurrentSizes sizes = recurrent_sizes(query);
  const SymbolValues opt = query.opt_values();
  const int64_t steps = upper_extent(sizes.steps, opt), batch = upper_extent(sizes.batch, opt);
  std::vector<std::pair<double, RecurrentVariant>> timed;
  for (const int blocks : {1, 2, 4, 8, 16}) {
    if (!can_have(blocks, gpu) || (blocks > 1 && sizes.hidden < 8 * blocks)) continue;
    for (const int sequences : {1, 2, 4, 8, 16}) {
      if (is_half(type) != (sequences >= 8) || (sequences > 1 && sequences >= 2 * batch && sequences != 8))
        continue;
      const auto plan = plan_recurrent(sizes, type, blocks, sequences, gpu);
      if (plan)
        timed.emplace_back(plan->microseconds(gpu, steps, batch), RecurrentVariant{blocks, sequences});
    }
  }
  return most_promising(std::move(timed));
}

bool has_weights_of_run(const LayerQuery& query) {
  const auto& inputs = query.layer().inputs;
  return !query.graph.value(inputs[kW]).is_constant() || !query.graph.value(inputs[kR]).is_constant();
}

Support supports_recurrent(const LayerQuery& query, const Tactic& t, DType type) {
  const Node& node = query.layer();
  for (const size_t i : {size_t{kW}, size_t{kR}}) {
    if (!is_static(input_shape(query, i)))
      return Support::no("the sizes of the weights are known only at run time");
    if (has_weights_of_run(query) && !is_kernel_float(t.inputs[i].dtype))
      return Support::no("weights of the run must be 16 or 32 bit floats");
  }
  for (const size_t i : {size_t{kBias}, size_t{kInitialH}, size_t{kInitialC}, size_t{kPeepholes}})
    if (is_given(t, i) && !is_kernel_float(t.inputs[i].dtype))
      return Support::no("biases and states must be 16 or 32 bit floats");
  if (is_given(t, kLengths) && t.inputs[kLengths].dtype != DType::Int32 &&
      t.inputs[kLengths].dtype != DType::Int64)
    return Support::no("lengths must be int32 or int64");
  if (!node.epilogue.empty()) return Support::no("recurrent layers apply no epilogue");
  if (!is_kernel_float(type)) return Support::no("no kernel for " + std::string(dtype_name(type)));
  if (has_data_dependent_dims(query)) return Support::no("the number of steps or sequences depends on data");
  if (input_shape(query, kR)[1].is_constant(0)) return Support::no("there are no hidden values");
  return {};
}

std::vector<Tactic> list_recurrent(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  if (!std::holds_alternative<RNN>(node.op) && !std::holds_alternative<GRU>(node.op) &&
      !std::holds_alternative<LSTM>(node.op))
    return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = linear_tactic(query, kRecurrentRunner, "cuda_recurrent");
    t.inputs[kX].dtype = type;
    for (TensorType& output : t.outputs)
      if (output.dtype != DType::Undefined) output.dtype = type;
    t.support = supports_recurrent(query, t, type);
    if (!has_weights_of_run(query)) t.inputs[kW] = t.inputs[kR] = {};
    const std::vector<RecurrentVariant> found =
        t.support.ok ? recurrent_variants(query, type, device.properties) : std::vector<RecurrentVariant>();
    if (t.support.ok && found.empty())
      t.support = Support::no("a block's part of the hidden values does not fit into a multiprocessor");
    if (!t.support.ok) tactics.push_back(t);
    for (const RecurrentVariant& v : found) tactics.push_back(with_variant(t, v.name(), v.params()));
  }
  return tactics;
}

LayerSource generate_recurrent(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  const RecurrentSizes sizes = recurrent_sizes(query);
  const DType type = tactic.inputs[kX].dtype;
  const auto plan = plan_recurrent(sizes, type, tactic.params.get_int("blocks"),
                                   tactic.params.get_int("sequences"), device.properties);
  check(plan.has_value(), "a recurrent layer that does not fit is generated");
  const Node& node = query.layer();
  const Tensor &w = query.graph.value(node.inputs[kW]).constant,
               &r = query.graph.value(node.inputs[kR]).constant;
  const RecurrentWeights weights = recurrent_weights(query, *plan);
  LayerSource source{.scratch_bytes = sizes.steps * sizes.batch * Dim(sizes.gates * sizes.hidden * 4) +
                                      Dim(weights.bytes)};
  if (weights.of_run) source.kernels = recurrent_pack_kernels(query, tactic, *plan, weights);
  source.kernels.push_back(recurrent_inputs_kernel(query, tactic, sizes, weights, device));
  source.kernels.push_back(recurrent_steps_kernel(query, tactic, *plan, weights));
  if (weights.of_run) return source;
  source.blocks["w"] = recurrent_inputs_block(sizes, type, w);
  for (size_t i = 0; i < plan->products.size(); ++i)
    source.blocks["r" + std::to_string(i)] = recurrent_rows_block(*plan, plan->products[i], r);
  return source;
}

std::string recurrent_packing_key(const Tactic& tactic) {
  return std::to_string(tactic.params.get("blocks", 1)) + " " +
         std::to_string(tactic.params.get("sequences", 1));
}

}  // namespace

GeneratedFamily recurrent_family() {
  return {kRecurrentRunner, list_recurrent, generate_recurrent, recurrent_packing_key};
}

}  // namespace lathe::cuda
