// SPDX-License-Identifier: Apache-2.0
//
// The reference on the host (backend/reference_layer.h), between copies from and to the GPU. It waits for the
// stream, so an engine with such a layer is launched in pieces around it, and the log says so.
#include "backend/cuda/run/reference.h"

#include <fmt/format.h>

#include "backend/cuda/run/device_values.h"
#include "backend/reference_layer.h"
#include "backend/storage_layout.h"
#include "base/error.h"

namespace lathe::cuda {
namespace {

class PreparedReference final : public PreparedLayer {
 public:
  PreparedReference(const Device& device, ReferenceLayer layer)
      : driver_(*device.driver), layer_(std::move(layer)) {}

  Support capturable() const override {
    const Node& node = layer_.node();
    return Support::no(fmt::format("'{}' ({}) runs on the host", node.name, op_display_name(node.op)));
  }

  void enqueue(const LayerArgs& args, CUstream stream) const override {
    driver_.require(driver_.cuStreamSynchronize(stream), "waiting for the layers before");
    const Node& node = layer_.node();
    std::vector<Tensor> inputs(node.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (node.inputs[i] != kNoValue) inputs[i] = fetch(i, args.inputs[i]);
    std::vector<Tensor> results = layer_.evaluate(inputs);
    result_extents_.clear();
    for (size_t i = 0; i < results.size(); ++i) {
      result_extents_.push_back(results[i].extents());
      if (node.outputs[i] != kNoValue) results[i] = in_format(results[i], layer_.output_format(i));
      const std::span<const std::byte> bytes = results[i].bytes();
      void* place = args.results != nullptr ? args.results->take(i, bytes.size()) : nullptr;
      if (place == nullptr) place = args.outputs[i];
      if (place != nullptr && !bytes.empty())
        driver_.require(driver_.cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(place), bytes.data(),
                                                  bytes.size(), stream),
                        "copying a result to the GPU");
    }
    driver_.require(driver_.cuStreamSynchronize(stream), "copying results to the GPU");
  }

  bool takes_memory() const override { return true; }
  void resolve(const LayerArgs&, SymbolValues& values) const override {
    layer_.resolve(result_extents_, values);
  }

 private:
  Tensor fetch(size_t index, const void* address) const {
    if (const Tensor constant = layer_.constant(index)) return constant;
    const TensorType& type = layer_.input_type(index);
    if (type.dtype == DType::Undefined)
      throw_input_error(
          fmt::format("an operand has no elements, and constant '{}' is packed for kernels that need some",
                      layer_.input_name(index)));
    return copy_to_host(driver_, type, layer_.input_extents(index), address);
  }

  const Driver& driver_;
  const ReferenceLayer layer_;
  mutable std::vector<Extents> result_extents_;  // of the last run, read by resolve()
};

class ReferenceKernel final : public LayerKernel {
 public:
  ReferenceKernel(const LayerQuery& query, const Tactic& tactic, const Device& device)
      : device_(device), graph_(query.graph), node_(query.layer()), tactic_(tactic) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedReference>(
        device_, ReferenceLayer(graph_, node_, tactic_, context.symbols, context.inputs, context.outputs));
  }

 private:
  const Device& device_;
  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
};

std::vector<Tactic> list_reference(const LayerQuery& query, const Device&) {
  return list_reference(query);
}

std::unique_ptr<LayerKernel> make_reference(const LayerQuery& query, const Tactic& tactic,
                                            const Device& device, const PackContext& pack) {
  if (!bodies_of(query.layer().op).empty()) return make_control_flow(query, tactic, device, pack);
  return make_reference(query, tactic, device);
}

}  // namespace

std::unique_ptr<LayerKernel> make_reference(const LayerQuery& query, const Tactic& tactic,
                                            const Device& device) {
  return std::make_unique<ReferenceKernel>(query, tactic, device);
}

TacticFamily reference_tactics() {
  return {kReferenceRunner, list_reference, make_reference};
}

}  // namespace lathe::cuda
