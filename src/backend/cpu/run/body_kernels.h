// SPDX-License-Identifier: Apache-2.0
//
// Bodies of If, Loop and Scan (backend/body_runs.h) with the kernels that layers have, on the whole team.
// Nothing is timed: a node gets the tactic that an untimed build takes, in its own types; values between
// nodes are linear, so a convolution in another format reorders what it reads and gives.
//
// Results are allocated for each iteration, and freed behind their last reader: a loop of 16 small nodes
// takes 0.7 us a node on Zen 5, kernels included. What it saves is a plan of memory for shapes that nobody
// knows before.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/body_runs.h"
#include "backend/cpu/kernel.h"

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

// One execution's layers, prepared for the shapes that they met, and scratch memory.
class CpuBodyRun final : public BodyRun {
 public:
  CpuBodyRun(const BodyKernels& kernels, LayerTeam& team)
      : BodyRun(kernels.graph()), kernels_(kernels), team_(team), prepared_(graph().node_count()) {}

 private:
  struct Prepared {
    std::vector<Extents> outputs;
    std::unique_ptr<PreparedLayer> layer;  // null: the reference
    // Of each operand and each result that the kernel has in another format than linear.
    std::vector<std::unique_ptr<PreparedLayer>> arrange, restore;
  };
  std::vector<Tensor> evaluate(NodeId id, std::span<const Tensor> inputs,
                               const SymbolValues& symbols) override;
  std::unique_ptr<BodyRunner> make_nested(NodeId id) override;
  Prepared prepare(const BodyKernels::Layer& layer, const ShapeContext& context) const;
  void run_layer(const PreparedLayer& layer, std::span<const void* const> from, std::span<void* const> to);
  const Prepared& prepared_for(NodeId id, const SymbolValues& symbols);

  const BodyKernels& kernels_;
  LayerTeam& team_;
  std::vector<KeptShapes<Prepared>> prepared_;  // by NodeId
  Tensor scratch_;
};

}  // namespace lathe::cpu
