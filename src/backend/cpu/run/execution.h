// SPDX-License-Identifier: Apache-2.0
//
// The state of running one program in one context: arena, scratch, and plans for the shapes seen lately.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "backend/caller_memory.h"
#include "backend/cpu/device/host_memory.h"
#include "backend/cpu/run/appended.h"
#include "backend/cpu/run/host_slots.h"
#include "backend/cpu/run/program.h"
#include "backend/cpu/run/shape_plan.h"
#include "backend/layer_scratch.h"

namespace lathe::cpu {

class CpuExecution final : public Execution, public LayerScratch, public Appending, public CallerMemory {
 public:
  CpuExecution(std::shared_ptr<const CpuProgram> program, int threads);

  void set_shapes(const SymbolValues& values) override;
  void run(std::span<void* const> bindings, Stream& stream) override;
  void run_profiled(std::span<void* const> bindings, Stream& stream, std::span<double> time_ms) override;
  void run_observed(std::span<void* const> bindings, Stream& stream, const LayerHook& hook) override;
  Tensor read(ValueId value) override;
  Extents extents(ValueId value) const override;
  const void* held_output(size_t index) const override;
  int64_t device_bytes() const override;
  std::vector<int64_t> layer_scratch_bytes() const override;

  AppendForm append_form(size_t input, size_t output) const override;
  void append_in_place(const std::vector<Append>& appends) override;

  int64_t arena_bytes() const override { return program_->spec().memory.arena_bytes; }
  void use_arena(void* memory) override;
  void expect_arena() override;

  // For whoever walks several executions layer by layer: bind() once, then the layers in order. Only programs
  // with one segment.
  void bind(std::span<void* const> bindings);
  void run_layer(size_t layer);

 private:
  // Plans of one segment, most recently used first.
  using PlanCache = std::list<std::unique_ptr<ShapePlan>>;

  bool is_empty(size_t segment) const;
  ShapePlan& plan_for(size_t segment);
  // Runs the segments one after the other with `run_plan`, learning data-dependent dims between them.
  void run_segments(std::span<void* const> bindings, const std::function<void(ShapePlan&)>& run_plan);
  // In front of a segment: sizes that its first layer's operands tell. Behind it: those that the layer found.
  void find_sizes(size_t segment);
  void resolve_symbols(ShapePlan& plan);

  std::shared_ptr<const CpuProgram> program_;
  int threads_ = 1;
  std::byte* arena() const { return callers_arena_ != nullptr ? callers_arena_ : arena_.begin(); }
  HostBuffer arena_, scratch_;
  std::byte* callers_arena_ = nullptr;
  bool expects_arena_ = false;
  HostSlots grown_;
  Appended appended_;
  std::vector<PlanCache> plans_;           // by segment
  std::vector<bool> has_sizes_in_values_;  // by segment: until an attempt to find them failed
  SymbolValues input_symbols_, symbols_;
  bool has_shapes_ = false;
  std::vector<void*> bindings_;  // of the run in progress or the last one
};

}  // namespace lathe::cpu
