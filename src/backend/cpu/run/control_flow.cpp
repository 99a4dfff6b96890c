// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan: member 0 evaluates the operator, and the whole team runs the layers of its bodies
// (body_kernels.h). Where a node of a body has no kernel the layer counts as one that runs on the reference,
// though the body's other nodes do not.
#include "backend/cpu/run/body_kernels.h"
#include "backend/cpu/run/reference.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kControlFlowRunner = "ControlFlow";

// The outputs of a layer, as far as they have a place for such a result.
class LayerResults final : public ResultPlaces {
 public:
  LayerResults(const PreparedReference& layer, const LayerArgs& args) : layer_(layer), args_(args) {}
  std::byte* place(size_t index, DType dtype, const Extents& extents) const override {
    return layer_.place(args_, index, dtype, extents);
  }

 private:
  const PreparedReference& layer_;
  const LayerArgs& args_;
};

class PreparedControlFlow final : public PreparedLayer {
 public:
  PreparedControlFlow(const std::vector<BodyKernels>& kernels, ReferenceLayer layer)
      : writes_once_(std::holds_alternative<If>(layer.node().op)),
        operator_(std::move(layer)),
        bodies_(make_body_runs<CpuBodyRun>(kernels, around_)) {}
  bool meets(int count) const override { return count > 1; }
  bool takes_memory() const override { return true; }
  void run(const LayerArgs& args, const Worker& worker) const override {
    around_.team.work(worker, [&] {
      const LayerResults results(operator_, args);
      around_.places = writes_once_ ? &results : nullptr;
      bodies_.add_times_to(args.nested_ms);
      operator_.run(args, &bodies_);
    });
  }
  void resolve(const LayerArgs& args, SymbolValues& values) const override {
    operator_.resolve(args, values);
  }

 private:
  const bool writes_once_;  // a branch runs once, an iteration's results are the next one's operands
  const PreparedReference operator_;
  mutable BodySurroundings around_;
  const BodyRuns bodies_;
};

class ControlFlowKernel final : public LayerKernel {
 public:
  ControlFlowKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                    const PackContext& pack)
      : graph_(query.graph),
        node_(query.layer()),
        tactic_(tactic),
        kernels_(make_body_kernels<BodyKernels>(node_.op, tactic.bodies, query.ranges, machine, pack)) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedControlFlow>(
        kernels_, ReferenceLayer(graph_, node_, tactic_, context.symbols, context.inputs, context.outputs));
  }

 private:
  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
  const std::vector<BodyKernels> kernels_;
};

std::vector<Tactic> list_control_flow(const LayerQuery& query, const Machine& machine) {
  const std::vector<Body> bodies = bodies_of(query.layer().op);
  if (bodies.empty()) return {};
  Tactic t = linear_tactic(query, kControlFlowRunner, "control_flow");
  for (const Body& body : bodies)
    if (std::string reason = without_kernel(body.graph(), query.ranges, machine); !reason.empty()) {
      t.support = Support::no(std::move(reason));
      break;
    }
  return {t};
}

}  // namespace

std::unique_ptr<LayerKernel> make_control_flow(const LayerQuery& query, const Tactic& tactic,
                                               const Machine& machine, const PackContext& pack) {
  return std::make_unique<ControlFlowKernel>(query, tactic, machine, pack);
}

TacticFamily control_flow_tactics() {
  return {kControlFlowRunner, list_control_flow, make_control_flow};
}

}  // namespace lathe::cpu
