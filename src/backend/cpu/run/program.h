// SPDX-License-Identifier: Apache-2.0
//
// The compiled network on the CPU: one kernel with packed weights per layer. Immutable, shared by all
// executions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/device/host_memory.h"
#include "backend/cpu/kernel.h"
#include "backend/program.h"
#include "backend/segments.h"
#include "base/thread_pool.h"

namespace lathe::cpu {

struct ProgramLayer {
  NodeId node = kNoNode;
  std::unique_ptr<LayerKernel> kernel;  // null: a view, nothing runs
  // The symbols that decide what it is prepared for; nothing where bodies may name others.
  std::optional<std::vector<std::string>> symbols;
  // Of its bodies: how many, and how many those of layers in front of it have (backend/nested_layers.h).
  size_t nested = 0, nested_before = 0;
};

class CpuProgram final : public Program, public std::enable_shared_from_this<CpuProgram> {
 public:
  CpuProgram(ProgramSpec spec, const Machine& machine, std::shared_ptr<ThreadPool> pool,
             std::shared_ptr<v1::Allocator> allocator = nullptr);

  std::unique_ptr<Execution> create_execution() const override;
  int64_t weight_bytes() const override { return weight_bytes_; }

  const Graph& graph() const { return *spec_.graph; }
  const ProgramSpec& spec() const { return spec_; }
  const std::vector<ProgramLayer>& layers() const { return layers_; }
  const Machine& machine() const { return machine_; }
  ThreadPool& pool() const { return *pool_; }
  // Of memory that executions take; null: the system.
  const std::shared_ptr<v1::Allocator>& allocator() const { return allocator_; }
  const Segments& segments() const { return segments_; }
  // Layers of all bodies.
  size_t nested_count() const {
    return layers_.empty() ? 0 : layers_.back().nested_before + layers_.back().nested;
  }

 private:
  void make_kernels();
  void count_weights();
  int64_t constant_bytes(const Node& node) const;

  ProgramSpec spec_;
  Machine machine_;
  std::shared_ptr<ThreadPool> pool_;
  std::shared_ptr<v1::Allocator> allocator_;
  std::vector<HostBuffer> weights_;  // of a loaded engine: what the kernels read
  std::vector<ProgramLayer> layers_;
  Segments segments_;
  int64_t weight_bytes_ = 0;
};

// tactic_families(), made once.
const std::vector<TacticFamily>& families();

// Throws Input when no family offers the tactic for the layer of one of the graphs (offered.h): choices may
// come from a file.
void check_choice(const std::vector<Graph>& graphs, NodeId layer, const SymbolRanges& ranges,
                  const Tactic& tactic, Machine machine);

// The kernel of a layer; null for a view. Throws Internal when no family knows the tactic.
std::unique_ptr<LayerKernel> make_kernel(const LayerQuery& query, const Tactic& tactic,
                                         const Machine& machine, const PackContext& pack);

// Calls body(0..count-1) on the pool; items go to whoever is free, because making a kernel takes 1 us or 10
// ms.
void for_each_parallel(ThreadPool& pool, size_t count, const std::function<void(size_t)>& body);

}  // namespace lathe::cpu
