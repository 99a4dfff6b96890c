// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan: the host follows the operator, and enqueues the layers of its bodies (body_kernels.h).
// So the layer is launched apart from the CUDA graphs around it, and the log says so. Where a node of a body
// has no kernel the layer counts as one that runs on the reference, though the body's other nodes do not.
#include <fmt/format.h>

#include "backend/cuda/run/body_kernels.h"
#include "backend/cuda/run/reference.h"
#include "backend/reference_layer.h"
#include "backend/sizes_from_values.h"
#include "base/error.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kControlFlowRunner = "ControlFlow";

class PreparedControlFlow final : public PreparedLayer {
 public:
  PreparedControlFlow(const std::vector<BodyKernels>& kernels, const Device& device, ReferenceLayer layer)
      : operator_(std::move(layer)), values_(device), bodies_(kernels, values_) {}

  Support capturable() const override {
    const Node& node = operator_.node();
    return Support::no(
        fmt::format("the host enqueues the bodies of '{}' ({})", node.name, op_display_name(node.op)));
  }

  void enqueue(const LayerArgs& args, CUstream stream) const override {
    values_.use(stream);
    values_.forget_wrapped();
    bodies_.add_times_to(args.nested_ms);
    const Node& node = operator_.node();
    std::vector<Tensor> inputs(node.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (node.inputs[i] != kNoValue) inputs[i] = operand(i, args.inputs[i]);
    const std::vector<Tensor> results = operator_.evaluate(inputs, &bodies_);
    result_extents_.clear();
    for (size_t i = 0; i < results.size(); ++i) {
      result_extents_.push_back(results[i].extents());
      void* place = args.results != nullptr ? args.results->take(i, results[i].bytes().size()) : nullptr;
      if (place == nullptr) place = args.outputs[i];
      if (place != nullptr) values_.copy(place, results[i]);
    }
  }

  bool takes_memory() const override { return true; }
  void resolve(const LayerArgs&, SymbolValues& values) const override {
    operator_.resolve(result_extents_, values);
  }

 private:
  // A constant that the host may have to read (a trip count) is given to the operator as it is there.
  Tensor operand(size_t index, const void* address) const {
    const Tensor constant = operator_.constant(index);
    if (constant && (address == nullptr || constant.size() <= kMostSizeElements)) return constant;
    return values_.wrap(operator_.input_type(index).dtype, operator_.input_extents(index), address);
  }

  // One run at a time: an execution's, which is prepared for its shapes.
  const ReferenceLayer operator_;
  mutable DeviceValues values_;
  const CudaBodyRuns bodies_;
  mutable std::vector<Extents> result_extents_;  // of the last run, read by resolve()
};

class ControlFlowKernel final : public LayerKernel {
 public:
  ControlFlowKernel(const LayerQuery& query, const Tactic& tactic, const Device& device,
                    const PackContext& pack)
      : device_(device),
        graph_(query.graph),
        node_(query.layer()),
        tactic_(tactic),
        kernels_(make_body_kernels<BodyKernels>(node_.op, tactic.bodies, query.ranges, device, pack)) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedControlFlow>(
        kernels_, device_,
        ReferenceLayer(graph_, node_, tactic_, context.symbols, context.inputs, context.outputs));
  }

 private:
  const Device& device_;
  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
  const std::vector<BodyKernels> kernels_;
};

std::vector<Tactic> list_control_flow(const LayerQuery& query, const Device& device) {
  const std::vector<Body> bodies = bodies_of(query.layer().op);
  if (bodies.empty()) return {};
  Tactic t = linear_tactic(query, kControlFlowRunner, "control_flow");
  for (const ValueId id : query.layer().inputs)
    if (id != kNoValue && query.graph.value(id).is_stored_quantized())
      t.support = Support::no("'" + query.graph.value(id).name + "' is stored as integers of a grid");
  for (const Body& body : bodies)
    if (std::string reason = without_kernel(body.graph(), query.ranges, device);
        t.support.ok && !reason.empty())
      t.support = Support::no(std::move(reason));
  return {t};
}

}  // namespace

std::unique_ptr<LayerKernel> make_control_flow(const LayerQuery& query, const Tactic& tactic,
                                               const Device& device, const PackContext& pack) {
  return std::make_unique<ControlFlowKernel>(query, tactic, device, pack);
}

TacticFamily control_flow_tactics() {
  return {kControlFlowRunner, list_control_flow, make_control_flow};
}

}  // namespace lathe::cuda
