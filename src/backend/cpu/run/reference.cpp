// SPDX-License-Identifier: Apache-2.0
//
// The reference on the CPU (backend/reference_layer.h): linear operands are read where they lie, results
// copied into place. Operands in other formats, which a layer of another family has when it meets a tensor
// without elements, are copied to linear and back.
#include "backend/cpu/run/reference.h"

#include <cstring>

#include "backend/storage_layout.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

std::byte* memory_of(const LayerArgs& args, size_t output, size_t bytes) {
  std::byte* taken = args.results != nullptr ? args.results->take(output, bytes) : nullptr;
  return taken != nullptr ? taken : static_cast<std::byte*>(args.outputs[output]);
}

}  // namespace

void PreparedReference::run(const LayerArgs& args, const BodyRunner* bodies) const {
  const Node& node = layer_.node();
  std::vector<Tensor> inputs(node.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    inputs[i] = layer_.constant(i);
    if (!inputs[i]) inputs[i] = operand(i, args.inputs[i]);
  }
  const std::vector<Tensor> results = layer_.evaluate(inputs, bodies);
  result_extents_.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    result_extents_.push_back(results[i].extents());
    if (node.outputs[i] == kNoValue || results[i].bytes().empty()) continue;
    const TensorType type{results[i].dtype(), layer_.output_format(i)};
    const auto bytes = static_cast<size_t>(storage_bytes(type.dtype, results[i].extents(), type.format));
    std::byte* place = memory_of(args, i, bytes);
    if (place == nullptr || place == results[i].bytes().data()) continue;
    if (type.format.is_linear())
      std::memcpy(place, results[i].bytes().data(), bytes);
    else
      from_linear(results[i], type.format, place);
  }
}

std::byte* PreparedReference::place(const LayerArgs& args, size_t index, DType dtype,
                                    const Extents& extents) const {
  const bool has_room = index < layer_.node().outputs.size() && layer_.node().outputs[index] != kNoValue &&
                        layer_.output_format(index).is_linear() && layer_.fits(index, dtype, extents);
  return has_room ? memory_of(args, index, static_cast<size_t>(dtype_bytes(dtype, element_count(extents))))
                  : nullptr;
}

Tensor PreparedReference::operand(size_t index, const void* address) const {
  const TensorType type = layer_.input_type(index);
  const Extents& extents = layer_.input_extents(index);
  if (type.dtype == DType::Undefined)
    throw_input_error("an operand has no elements, and constant '" + layer_.input_name(index) +
                      "' is packed for kernels that need some");
  if (!type.format.is_linear()) return to_linear(type, extents, address);
  return Tensor::wrap(type.dtype, extents,
                      {static_cast<const std::byte*>(address), layer_.input_bytes(index)}, nullptr);
}

namespace {

class ReferenceKernel final : public LayerKernel {
 public:
  ReferenceKernel(const LayerQuery& query, const Tactic& tactic)
      : graph_(query.graph), node_(query.layer()), tactic_(tactic) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedReference>(
        ReferenceLayer(graph_, node_, tactic_, context.symbols, context.inputs, context.outputs));
  }

 private:
  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
};

std::vector<Tactic> list_reference(const LayerQuery& query, const Machine&) {
  return list_reference(query);
}

std::unique_ptr<LayerKernel> make_any_reference(const LayerQuery& query, const Tactic& tactic,
                                                const Machine& machine, const PackContext& pack) {
  if (!bodies_of(query.layer().op).empty()) return make_control_flow(query, tactic, machine, pack);
  return make_reference(query, tactic);
}

}  // namespace

std::unique_ptr<LayerKernel> make_reference(const LayerQuery& query, const Tactic& tactic) {
  return std::make_unique<ReferenceKernel>(query, tactic);
}

TacticFamily reference_tactics() {
  return {kReferenceRunner, list_reference, make_any_reference};
}

}  // namespace lathe::cpu
