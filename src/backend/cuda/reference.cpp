// SPDX-License-Identifier: Apache-2.0
//
// The last resort: every operator in linear format and the graph's own types, copied to the host, evaluated by its
// reference and copied back. Slow and right; with it a valid graph always builds. It waits for the stream, so an engine
// with such a layer is launched in pieces around it, and the log says so.
//
// It takes part in data-dependent shapes: the evaluation returns tensors with their true extents, from which the new
// symbols are read.
#include <fmt/format.h>

#include <cstring>

#include "backend/cuda/kernel.h"
#include "backend/cuda/own_tactic.h"
#include "base/error.h"
#include "ops/op_def.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRunner = "Reference";

class PreparedReference final : public PreparedLayer {
 public:
  PreparedReference(const Device& device, const Graph& graph, const Node& node, const Tactic& tactic,
                    const ShapeContext& context)
      : device_(device),
        graph_(graph),
        node_(node),
        tactic_(tactic),
        symbols_(context.symbols),
        inputs_(context.inputs),
        outputs_(context.outputs) {}

  Support capturable() const override {
    return Support::no(fmt::format("'{}' ({}) runs on the host", node_.name, op_display_name(node_.op)));
  }

  void enqueue(const LayerArgs& args, CUstream stream) const override {
    device_.driver->require(device_.driver->cuStreamSynchronize(stream), "waiting for the layers before");
    std::vector<Tensor> inputs(node_.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (node_.inputs[i] != kNoValue) inputs[i] = fetch(i, args.inputs[i]);
    const EvaluateContext context{
        .inputs = inputs, .output_count = node_.outputs.size(), .symbols = &symbols_};
    const std::vector<Tensor> results = evaluate_node(node_, context, tactic_.outputs[0].dtype);
    result_extents_.assign(results.size(), {});
    for (size_t i = 0; i < results.size() && i < node_.outputs.size(); ++i)
      if (node_.outputs[i] != kNoValue && args.outputs[i] != nullptr)
        store(results[i], i, args.outputs[i], stream);
    device_.driver->require(device_.driver->cuStreamSynchronize(stream), "copying results to the GPU");
  }

  void resolve(const LayerArgs&, SymbolValues& values) const override {
    for (size_t i = 0; i < result_extents_.size(); ++i) {
      if (node_.outputs[i] == kNoValue) continue;
      const Shape& shape = graph_.value(node_.outputs[i]).shape;
      for (size_t d = 0; d < shape.size() && d < result_extents_[i].size(); ++d)
        if (const auto name = shape[d].as_symbol(); name && !values.contains(*name))
          values.emplace(*name, result_extents_[i][d]);
    }
  }

 private:
  Tensor fetch(size_t index, const void* address) const {
    const Value& value = graph_.value(node_.inputs[index]);
    if (value.is_constant() && value.constant.has_bytes()) return value.constant;
    Tensor tensor = Tensor::allocate(tactic_.inputs[index].dtype, inputs_[index]);
    if (!tensor.bytes().empty())
      device_.driver->require(
          device_.driver->cuMemcpyDtoH(tensor.mutable_bytes().data(), reinterpret_cast<CUdeviceptr>(address),
                                       tensor.bytes().size()),
          "copying an operand to the host");
    return tensor;
  }

  void store(const Tensor& result, size_t index, void* address, CUstream stream) const {
    const auto room =
        static_cast<size_t>(dtype_bytes(tactic_.outputs[index].dtype, element_count(outputs_[index])));
    if (result.dtype() != tactic_.outputs[index].dtype || result.bytes().size() > room)
      throw_input_error(fmt::format("{} '{}' computed {} {}, but its output {} was planned as {} {} at most",
                                    op_display_name(node_.op), node_.name, dtype_name(result.dtype()),
                                    to_string(result.extents()), index,
                                    dtype_name(tactic_.outputs[index].dtype), to_string(outputs_[index])));
    if (!result.bytes().empty())
      device_.driver->require(
          device_.driver->cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(address), result.bytes().data(),
                                            result.bytes().size(), stream),
          "copying a result to the GPU");
    result_extents_[index] = result.extents();
  }

  const Device& device_;
  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
  const SymbolValues symbols_;
  const std::vector<Extents> inputs_, outputs_;
  mutable std::vector<Extents> result_extents_;  // of the last run, read by resolve()
};

class ReferenceKernel final : public LayerKernel {
 public:
  ReferenceKernel(const LayerQuery& query, const Tactic& tactic, const Device& device)
      : device_(device), graph_(query.graph), node_(query.layer()), tactic_(tactic) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedReference>(device_, graph_, node_, tactic_, context);
  }

 private:
  const Device& device_;
  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
};

std::vector<Tactic> list_reference(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (std::holds_alternative<Reformat>(node.op)) return {};  // formats are not the reference's business
  Tactic tactic = linear_tactic(query, kRunner, fmt::format("reference_{}", op_name(node.op)));
  tactic.last_resort = true;
  return {tactic};
}

std::unique_ptr<LayerKernel> make_reference(const LayerQuery& query, const Tactic& tactic,
                                            const Device& device, const PackContext&) {
  return std::make_unique<ReferenceKernel>(query, tactic, device);
}

}  // namespace

TacticFamily reference_tactics() {
  return {kRunner, list_reference, make_reference};
}

}  // namespace lathe::cuda
