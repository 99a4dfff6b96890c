// SPDX-License-Identifier: Apache-2.0
//
// Bodies of If, Loop and Scan (backend/body_runs.h) with the kernels that layers have, on the whole team.
// A node has the tactic that the tuner chose for it; where there is none, what an untimed build takes, and it
// reorders what lies in another format than it reads or gives.
//
// Results take memory in each iteration and give it back behind their last reader (host_values.h): a loop of
// 16 small nodes takes 0.7 us a node on Zen 5, kernels included. What it saves is a plan of memory for shapes
// that nobody knows before.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/body_runs.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/run/host_values.h"

namespace lathe::cpu {

// The kernels of one body, and of the bodies inside of it. Immutable.
class BodyKernels {
 public:
  // `chosen`: the tactic of each node, in order; none: as an untimed build takes them. Throws Input when one
  // does not fit its node: it may come from a file.
  BodyKernels(Body body, std::span<const Tactic> chosen, const SymbolRanges& ranges, const Machine& machine,
              const PackContext& pack);

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

// Memory that the results of an operator may be written to at once.
class ResultPlaces {
 public:
  virtual ~ResultPlaces() = default;
  // Of result number `index` with these extents; null: none.
  virtual std::byte* place(size_t index, DType dtype, const Extents& extents) const = 0;
};

// What the bodies of a layer share while they run. `places`: null, or where their results may lie.
struct BodySurroundings {
  LayerTeam team;
  HostValues values;
  const ResultPlaces* places = nullptr;
};

// One execution's layers, prepared for the shapes that they met, and scratch memory.
class CpuBodyRun final : public BodyRun {
 public:
  CpuBodyRun(const BodyKernels& kernels, BodySurroundings& around);

 private:
  struct Prepared {
    std::vector<Extents> outputs;
    std::unique_ptr<PreparedLayer> layer;  // null: the reference
    // Of each operand and each result that the kernel has in another format than the value.
    std::vector<std::unique_ptr<PreparedLayer>> arrange, restore;
  };
  std::vector<Tensor> evaluate(NodeId id, std::span<const Tensor> inputs,
                               const SymbolValues& symbols) override;
  std::unique_ptr<BodyRuns> make_nested(NodeId id) override;
  Prepared prepare(NodeId id, const ShapeContext& context) const;
  std::vector<Tensor> interpret_stored(const Node& node, std::span<const Tensor> inputs,
                                       const SymbolValues& symbols) const;
  Tensor allocate_result(ValueId id, const Extents& extents) const;
  void run_layer(const PreparedLayer& layer, std::span<const void* const> from, std::span<void* const> to);
  const Prepared& prepared_for(NodeId id, const SymbolValues& symbols);

  const BodyKernels& kernels_;
  BodySurroundings& around_;
  std::vector<KeptShapes<Prepared>> prepared_;  // by NodeId
  std::map<ValueId, size_t> results_;           // of the body: their numbers
  HostBuffer scratch_;
};

}  // namespace lathe::cpu
