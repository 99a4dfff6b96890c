// SPDX-License-Identifier: Apache-2.0
//
// Bodies of If, Loop and Scan with the kernels that layers have. What repeats and what is taken is the
// operator's definition (ops/control_flow.cpp); a body's nodes run one after another, each on the whole team,
// and are prepared once for each shape that they meet: the keys and values of a decoder grow with every
// iteration. Nothing is timed: a node gets the tactic that an untimed build takes, in its own types; values
// between nodes are linear, so a convolution in another format reorders what it reads and gives.
//
// Results are allocated for each iteration, and freed behind their last reader: a loop of 16 small nodes
// takes 0.7 us a node on Zen 5, kernels included. What it saves is a plan of memory for shapes that nobody
// knows before.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/kernel.h"
#include "ops/interpreter.h"

namespace lathe::cpu {

// The kernels of one body, and of the bodies inside of it. Immutable.
class BodyKernels {
 public:
  BodyKernels(Body body, const SymbolRanges& ranges, const Machine& machine, const PackContext& pack);

  // One per node of the body: its kernel, or none where the reference runs it.
  struct Layer {
    std::unique_ptr<LayerKernel> kernel;
    Tactic tactic;
    std::vector<std::string> symbols;  // what its shapes and attributes depend on
    std::vector<BodyKernels> bodies;
  };
  const Graph& graph() const { return body_.graph(); }
  const Machine& machine() const { return machine_; }
  const Layer& layer(NodeId id) const { return layers_[static_cast<size_t>(id)]; }

 private:
  Body body_;
  Machine machine_;
  std::vector<Layer> layers_;  // by NodeId
};

// Those of each body of an operator.
std::vector<BodyKernels> make_body_kernels(const Op& op, const SymbolRanges& ranges, const Machine& machine,
                                           const PackContext& pack);

// The first node of the body, or of one inside of it, that only the reference runs, with the reason; empty
// when all have kernels. Changes of shape, and what finds the size of its result, are the reference's in a
// body: they cost nothing, or what they cost anywhere.
std::string without_kernel(const Graph& body, const SymbolRanges& ranges, const Machine& machine);

// Lets one thread of a team call layers that the whole team runs. The others follow until it has finished.
class LayerTeam {
 public:
  // On every member: member 0 leads, and run() may be called meanwhile.
  void work(const Worker& worker, const std::function<void()>& lead);
  void run(const PreparedLayer& layer, const LayerArgs& args);
  int size() const { return leader_ == nullptr ? 1 : leader_->count; }

 private:
  struct Job {
    const PreparedLayer* layer = nullptr;
    const LayerArgs* args = nullptr;
  };
  static void run_piece(const Job& job, const Worker& worker);

  // Two jobs, in turn: a member that comes late still looks at the last one when the leader writes the next.
  Job jobs_[2];
  size_t next_ = 0;  // the leader's
  const Worker* leader_ = nullptr;
};

class BodyRun;

// The runs of an operator's bodies.
class BodyRuns final : public BodyRunner {
 public:
  BodyRuns(const std::vector<BodyKernels>& kernels, LayerTeam& team);
  BodyRuns(BodyRuns&&) noexcept;
  ~BodyRuns() override;
  std::vector<Tensor> run(const Graph& body, std::span<const Tensor> inputs,
                          const SymbolValues& symbols) const override;

 private:
  std::vector<std::unique_ptr<BodyRun>> runs_;
};

// What one execution knows of a body: layers prepared for the shapes that they met, and scratch memory.
class BodyRun {
 public:
  BodyRun(const BodyKernels& kernels, LayerTeam& team)
      : kernels_(kernels), team_(team), prepared_(kernels.graph().node_count()) {}

  const Graph& graph() const { return kernels_.graph(); }
  std::vector<Tensor> run(std::span<const Tensor> inputs, const SymbolValues& symbols);

 private:
  struct Prepared {
    std::vector<int64_t> key;
    std::vector<Extents> outputs;
    std::unique_ptr<PreparedLayer> layer;  // null: the reference
    // Of each operand and each result that the kernel has in another format than linear.
    std::vector<std::unique_ptr<PreparedLayer>> arrange, restore;
  };
  std::vector<Tensor> evaluate(NodeId id, std::span<const Tensor> inputs, const SymbolValues& symbols);
  void prepare(const BodyKernels::Layer& layer, const ShapeContext& context, Prepared& prepared) const;
  void run_layer(const PreparedLayer& layer, std::span<const void* const> from, std::span<void* const> to);
  Prepared& prepared_for(NodeId id, const SymbolValues& symbols);
  std::vector<Tensor> run_nested(NodeId id, std::span<const Tensor> inputs, const SymbolValues& symbols);

  const BodyKernels& kernels_;
  LayerTeam& team_;
  std::vector<std::vector<Prepared>> prepared_;  // by NodeId, the last one used in front
  std::map<NodeId, BodyRuns> nested_;
  Tensor scratch_;
};

}  // namespace lathe::cpu
