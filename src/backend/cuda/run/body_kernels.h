// SPDX-License-Identifier: Apache-2.0
//
// Bodies of If, Loop and Scan on the GPU: what repeats and what is taken is the operator's definition
// (ops/control_flow.cpp), which the host follows; each node of a body is a kernel that the host enqueues, in
// device memory, prepared once for each shape that it meets. Nothing is timed: a node gets the tactic that an
// untimed build takes, in its own types (backend/body_nodes.h).
//
// The host waits for the GPU only where it must know a number: a condition that a kernel computed, the size
// of NonZero's result. Numbers that say shapes (the iteration, lengths, a condition made of them) are
// computed on the host as long as all that they are made of is there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/kernel.h"
#include "backend/cuda/run/device_values.h"
#include "ops/interpreter.h"

namespace lathe::cuda {

// A value that a kernel has in another format than linear, where values of bodies are: the kernel that
// arranges it. It has a graph of its own, with one node.
struct BodyReformat {
  std::unique_ptr<Graph> graph;
  std::unique_ptr<LayerKernel> kernel;
};

// The kernels of one body, and of the bodies inside of it. Immutable.
class BodyKernels {
 public:
  BodyKernels(Body body, const SymbolRanges& ranges, const Device& device, const PackContext& pack);

  // One per node of the body: its kernel, or none where the host evaluates it.
  struct Layer {
    std::unique_ptr<LayerKernel> kernel;
    Tactic tactic;
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
  void make_layer(NodeId id, const SymbolRanges& inside, const PackContext& pack);

  Body body_;
  const Device& device_;
  std::vector<Layer> layers_;  // by NodeId
};

// Those of each body of an operator.
std::vector<BodyKernels> make_body_kernels(const Op& op, const SymbolRanges& ranges, const Device& device,
                                           const PackContext& pack);

// The first node of the body, or of one inside of it, that only the host runs, with the reason; empty when
// all have kernels.
std::string without_kernel(const Graph& body, const SymbolRanges& ranges, const Device& device);

class BodyRun;

// The runs of an operator's bodies.
class BodyRuns final : public BodyRunner {
 public:
  BodyRuns(const std::vector<BodyKernels>& kernels, DeviceValues& values);
  BodyRuns(BodyRuns&&) noexcept;
  ~BodyRuns() override;

  std::vector<Tensor> run(const Graph& body, std::span<const Tensor> inputs,
                          const SymbolValues& symbols) const override;
  Tensor on_host(const Tensor& tensor) const override { return values_.on_host(tensor); }
  Tensor slice(const Tensor& tensor, size_t axis, int64_t index) const override;
  Tensor join(const std::vector<Tensor>& parts, size_t axis) const override;

 private:
  DeviceValues& values_;
  std::vector<std::unique_ptr<BodyRun>> runs_;
};

// What one execution knows of a body: layers prepared for the shapes that they met.
class BodyRun {
 public:
  BodyRun(const BodyKernels& kernels, DeviceValues& values)
      : kernels_(kernels), values_(values), prepared_(kernels.graph().node_count()) {}

  const Graph& graph() const { return kernels_.graph(); }
  std::vector<Tensor> run(std::span<const Tensor> inputs, const SymbolValues& symbols);

 private:
  struct Prepared {
    std::vector<int64_t> key;
    std::vector<Extents> outputs;
    std::unique_ptr<PreparedLayer> layer;  // null: the host
    std::vector<std::unique_ptr<PreparedLayer>> arrange, restore;
  };
  std::vector<Tensor> evaluate(NodeId id, std::span<const Tensor> inputs, const SymbolValues& symbols);
  std::vector<Tensor> evaluate_on_host(NodeId id, std::span<const Tensor> inputs,
                                       const SymbolValues& symbols) const;
  std::vector<Tensor> run_nested(NodeId id, std::span<const Tensor> inputs, const SymbolValues& symbols);
  std::vector<Tensor> run_kernel(NodeId id, std::span<const Tensor> inputs, const Prepared& prepared,
                                 const SymbolValues& symbols);
  // Returns the layer's scratch memory.
  Tensor enqueue(const PreparedLayer& layer, std::span<const void* const> from, std::span<void* const> to);
  // The results, which have room for the bound, with the sizes that the kernel counted.
  void shrink(NodeId id, const PreparedLayer& layer, const LayerArgs& args, SymbolValues symbols,
              std::vector<Tensor>& results) const;
  bool is_for_host(const Node& node, std::span<const Tensor> inputs, const SymbolValues& symbols) const;
  void prepare(const BodyKernels::Layer& layer, const ShapeContext& context, Prepared& prepared) const;
  const Prepared& prepared_for(NodeId id, const SymbolValues& symbols);

  const BodyKernels& kernels_;
  DeviceValues& values_;
  std::vector<std::vector<Prepared>> prepared_;  // by NodeId, the last one used in front
  std::map<NodeId, BodyRuns> nested_;
};

}  // namespace lathe::cuda
