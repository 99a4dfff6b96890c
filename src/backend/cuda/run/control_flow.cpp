// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan: the host follows the operator, and enqueues the layers of its bodies (body_kernels.h).
// Recorded into a CUDA graph, the GPU follows it where a value of the GPU decides (recorded_bodies.cpp).
// Where that cannot be, because sizes are found while it runs or the host has to read a value, the layer is
// launched apart from the graphs around it, and the log says so. Where a node of a body has no kernel the
// layer counts as one that runs on the reference, though the body's other nodes do not.
#include <fmt/format.h>

#include "backend/cuda/run/body_kernels.h"
#include "backend/cuda/run/reference.h"
#include "backend/reference_layer.h"
#include "backend/sizes_from_values.h"
#include "base/error.h"
#include "ir/new_names.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kControlFlowRunner = "ControlFlow";

class PreparedControlFlow final : public PreparedLayer {
 public:
  PreparedControlFlow(const std::vector<BodyKernels>& kernels, const Device& device,
                      const ConditionalNodes& conditions, const SymbolValues& symbols, ReferenceLayer layer,
                      std::string why_not_recorded)
      : device_(device),
        operator_(std::move(layer)),
        symbols_(symbols),
        world_{DeviceValues(device), conditions},
        bodies_(kernels, world_),
        why_not_recorded_(std::move(why_not_recorded)) {}

  Support capturable() const override {
    if (why_not_recorded_.empty()) return {};
    const Node& node = operator_.node();
    return Support::no(fmt::format("the host enqueues the bodies of '{}' ({}), because {}", node.name,
                                   op_display_name(node.op), why_not_recorded_));
  }

  void enqueue(const LayerArgs& args, CUstream stream) const override {
    if (!is_recorded(device_, stream)) return run(args, stream, false);
    const RelaxedRecording relaxed(device_);
    try {
      run(args, stream, true);
    } catch (const Error& error) {
      why_not_recorded_ = error.what();
      throw;
    }
  }

  bool takes_memory() const override { return true; }
  void resolve(const LayerArgs&, SymbolValues& values) const override {
    operator_.resolve(result_extents_, values);
  }

 private:
  void run(const LayerArgs& args, CUstream stream, bool recorded) const {
    DeviceValues& values = world_.values;
    values.use(stream, recorded);
    values.forget_wrapped();
    world_.recorded_calls = 0;
    bodies_.add_times_to(args.nested_ms);
    const Node& node = operator_.node();
    std::vector<Tensor> inputs(node.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (node.inputs[i] != kNoValue) inputs[i] = operand(i, args.inputs[i]);
    auto results = bodies_.follow_on_device(node.op, inputs, symbols_);
    if (!results) results = operator_.evaluate(inputs, &bodies_);
    result_extents_.clear();
    for (size_t i = 0; i < results->size(); ++i) {
      const Tensor& result = (*results)[i];
      result_extents_.push_back(result.extents());
      void* place = args.results != nullptr ? args.results->take(i, result.bytes().size()) : nullptr;
      if (place == nullptr) place = args.outputs[i];
      if (place != nullptr) values.copy(place, result);
    }
  }

  // Numbers that the host may have to read (a trip count) are given to the operator as they are there.
  Tensor operand(size_t index, const void* address) const {
    const Tensor known = operator_.known_numbers(index);
    if (known && (address == nullptr || known.size() <= kMostSizeElements)) return known;
    return world_.values.wrap(operator_.input_type(index).dtype, operator_.input_extents(index), address);
  }

  // One run at a time: an execution's, which is prepared for its shapes.
  const Device& device_;
  const ReferenceLayer operator_;
  const SymbolValues symbols_;
  mutable BodyWorld world_;
  const CudaBodyRuns bodies_;
  mutable std::string why_not_recorded_;         // found when it was prepared, or when it was recorded
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
        kernels_(make_body_kernels<BodyKernels>(node_.op, tactic.bodies, query.ranges, device, pack)),
        conditions_(device, pack.blobs) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedControlFlow>(
        kernels_, device_, conditions_, context.symbols,
        ReferenceLayer(graph_, node_, tactic_, context.symbols, context.inputs, context.outputs),
        why_not(context.symbols));
  }

 private:
  // Why it cannot go into a graph; empty: it may.
  std::string why_not(const SymbolValues& symbols) const {
    if (!new_names(graph_, node_).empty()) return "the size of its result is found while it runs";
    std::string reason = why_not_recorded(node_.op, symbols);
    return reason.empty() ? conditions_.support().reason : reason;
  }

  const Device& device_;
  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
  const std::vector<BodyKernels> kernels_;
  const ConditionalNodes conditions_;
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
