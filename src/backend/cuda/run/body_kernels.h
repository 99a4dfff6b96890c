// SPDX-License-Identifier: Apache-2.0
//
// Bodies of If, Loop and Scan (backend/body_runs.h) on the GPU: the host follows the operator, and each node
// of a body is a kernel that it enqueues, in device memory, with the tactic that the tuner chose for it.
//
// The host waits for the GPU only where it must know a number: a condition that a kernel computed, the size
// of NonZero's result. Numbers that say shapes (the iteration, lengths, a condition made of them) are
// computed on the host as long as all that they are made of is there.
//
// While a CUDA graph is recorded the host walks through the bodies once, with the kernels of every iteration
// one behind the other; where the GPU has to decide, a conditional node holds the body (recorded_bodies.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/body_runs.h"
#include "backend/cuda/device/conditional_nodes.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/run/device_values.h"

namespace lathe::cuda {

// A value that a kernel of an untimed build has in another format than the body: the kernel that arranges it.
// It has a graph of its own, with one node.
struct BodyReformat {
  std::unique_ptr<Graph> graph;
  std::unique_ptr<LayerKernel> kernel;
};

// The kernels of one body, and of the bodies inside of it. Immutable.
class BodyKernels {
 public:
  // `chosen`: the tactic of each node, in order; none: as an untimed build takes them. Throws Input when one
  // does not fit its node: it may come from a file.
  BodyKernels(Body body, std::span<const Tactic> chosen, const SymbolRanges& ranges, const Device& device,
              const PackContext& pack);

  // One per node of the body: its kernel, or none where the host evaluates it.
  struct Layer {
    std::unique_ptr<LayerKernel> kernel;
    Tactic tactic;
    bool is_linear = false;                      // what the kernel reads and writes
    std::vector<std::string> symbols;            // what its shapes and attributes depend on
    std::vector<std::string> found;              // sizes that the kernel counts (NonZero), no part of those
    std::vector<DeviceMemory> constants;         // by operand: those that the kernel reads in place
    std::vector<BodyReformat> arrange, restore;  // by operand and by result
    std::vector<BodyKernels> bodies;
  };
  const Graph& graph() const { return body_.graph(); }
  const Device& device() const { return device_; }
  const Layer& layer(NodeId id) const { return layers_[static_cast<size_t>(id)]; }

 private:
  void make_layer(NodeId id, const Tactic* chosen, const SymbolRanges& inside, const PackContext& pack);
  std::optional<Tactic> untimed(NodeId id, const SymbolRanges& inside) const;

  Body body_;
  const Device& device_;
  std::vector<Layer> layers_;  // by NodeId
};

// The first node of the body, or of one inside of it, that only the host runs, with the reason; empty when
// all have kernels.
std::string without_kernel(const Graph& body, const SymbolRanges& ranges, const Device& device);

// A graph of more would take long to make, and memory for each.
inline constexpr size_t kMostRecordedCalls = 4096;

// What the bodies of one layer share.
struct BodyWorld {
  DeviceValues values;
  const ConditionalNodes& conditions;
  size_t recorded_calls = 0;  // of the recording in progress
};

// The runs of an operator's bodies, with values that stay on the device.
class CudaBodyRuns final : public BodyRuns {
 public:
  CudaBodyRuns(const std::vector<BodyKernels>& kernels, BodyWorld& world);
  // Into the graph that is recorded, as conditional nodes; see recorded_bodies.cpp.
  std::optional<std::vector<Tensor>> follow_on_device(const Op& op, std::span<const Tensor> inputs,
                                                      const SymbolValues& symbols) const override;

  Tensor on_host(const Tensor& tensor) const override { return world_.values.on_host(tensor); }
  Tensor slice(const Tensor& tensor, size_t axis, int64_t index) const override;
  Tensor join(const std::vector<Tensor>& parts, size_t axis) const override;

 private:
  std::vector<Tensor> record_if(const If& op, std::span<const Tensor> inputs,
                                const SymbolValues& symbols) const;
  std::vector<Tensor> record_loop(const Loop& op, std::span<const Tensor> inputs,
                                  const SymbolValues& symbols) const;

  BodyWorld& world_;
};

// Why the operator cannot go into a graph whatever its values are; empty: it may. `known`: the dims that have
// a value before it runs.
std::string why_not_recorded(const Op& op, const SymbolValues& known);

// One execution's layers, prepared for the shapes that they met.
class CudaBodyRun final : public BodyRun {
 public:
  CudaBodyRun(const BodyKernels& kernels, BodyWorld& world)
      : BodyRun(kernels.graph()),
        kernels_(kernels),
        world_(world),
        values_(world.values),
        prepared_(graph().node_count()) {}

 private:
  struct Prepared {
    std::vector<Extents> outputs;
    std::unique_ptr<PreparedLayer> layer;  // null: the host
    std::vector<std::unique_ptr<PreparedLayer>> arrange, restore;
  };
  std::vector<Tensor> evaluate(NodeId id, std::span<const Tensor> inputs,
                               const SymbolValues& symbols) override;
  std::unique_ptr<BodyRuns> make_nested(NodeId id) override;
  void wait() const override { values_.wait(); }
  std::vector<Tensor> evaluate_on_host(NodeId id, std::span<const Tensor> inputs,
                                       const SymbolValues& symbols) const;
  std::vector<Tensor> run_kernel(NodeId id, std::span<const Tensor> inputs, const Prepared& prepared,
                                 const SymbolValues& symbols);
  // Returns the layer's scratch memory.
  Tensor enqueue(const PreparedLayer& layer, std::span<const void* const> from, std::span<void* const> to);
  // The results, which have room for the bound, with the sizes that the kernel counted.
  void shrink(NodeId id, const PreparedLayer& layer, const LayerArgs& args, SymbolValues symbols,
              std::vector<Tensor>& results) const;
  bool is_for_host(const Node& node, std::span<const Tensor> inputs, const SymbolValues& symbols) const;
  Prepared prepare(const BodyKernels::Layer& layer, const ShapeContext& context) const;
  const Prepared& prepared_for(NodeId id, const SymbolValues& symbols);

  const BodyKernels& kernels_;
  BodyWorld& world_;
  DeviceValues& values_;
  std::vector<KeptShapes<Prepared>> prepared_;  // by NodeId
};

}  // namespace lathe::cuda
