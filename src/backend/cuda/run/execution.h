// SPDX-License-Identifier: Apache-2.0
//
// The state of running one program in one context: arena, scratch, and plans for the shapes seen lately.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "backend/caller_memory.h"
#include "backend/cuda/device/stream.h"
#include "backend/cuda/run/device_slots.h"
#include "backend/cuda/run/program.h"
#include "backend/cuda/run/shape_plan.h"

namespace lathe::cuda {

class CudaExecution final : public Execution, public CallerMemory {
 public:
  explicit CudaExecution(std::shared_ptr<const CudaProgram> program);
  ~CudaExecution() override;

  void set_shapes(const SymbolValues& values) override;
  void expect_shapes(const SymbolValues& values) override;
  void run(std::span<void* const> bindings, Stream& stream) override;
  void run_profiled(std::span<void* const> bindings, Stream& stream, std::span<double> time_ms) override;
  void run_observed(std::span<void* const> bindings, Stream& stream, const LayerHook& hook) override;
  Tensor read(ValueId value) override;
  Extents extents(ValueId value) const override;
  const void* held_output(size_t index) const override;
  int64_t device_bytes() const override;
  int64_t arena_bytes() const override { return program_->spec().memory.arena_bytes; }
  void use_arena(void* memory) override;
  void expect_arena() override;
  std::string launch_note() const override;

 private:
  // Plans of one segment, most recently used first.
  using PlanCache = std::list<std::unique_ptr<ShapePlan>>;

  ShapePlan& plan_for(size_t segment);
  bool is_empty(size_t segment) const;
  // Sizes of the segment's first layer that follow from values; waits for the stream where there are any.
  void find_sizes(size_t segment, CUstream stream);
  // Runs the segments one after the other with `run_plan`, which gets a segment's plan and number, learning
  // data-dependent dims between them.
  void run_segments(std::span<void* const> bindings, CUstream stream,
                    const std::function<void(ShapePlan&, size_t)>& run_plan);
  void resolve_symbols(ShapePlan& plan, CUstream stream);
  // A plan that is not kept goes when the device has done what was enqueued before: a run notes on its stream
  // where it begins.
  void retire(std::unique_ptr<ShapePlan> plan);
  void free_retired(CUstream stream);
  std::byte* arena() const {
    return callers_arena_ != nullptr ? callers_arena_ : static_cast<std::byte*>(arena_.data());
  }
  void wait_for_runs();

  std::shared_ptr<const CudaProgram> program_;
  DeviceMemory arena_, scratch_;
  std::byte* callers_arena_ = nullptr;
  bool expects_arena_ = false;
  DeviceSlots grown_;
  std::vector<PlanCache> plans_;           // by segment
  std::vector<UpdatedGraphs> updated_;     // by segment
  std::vector<bool> has_sizes_in_values_;  // by segment; until a size did not follow
  struct Retired {
    std::unique_ptr<ShapePlan> plan;
    std::unique_ptr<GpuEvent> end;  // null: no run has begun since
  };
  std::deque<Retired> retired_;
  std::vector<std::unique_ptr<GpuEvent>> spare_events_;
  SymbolValues input_symbols_, symbols_;
  bool has_shapes_ = false;
  std::vector<void*> bindings_;  // of the run in progress or the last one
  bool has_run_ = false;
  std::vector<std::unique_ptr<GpuEvent>> marks_;  // run_profiled: before each layer, and behind the last
  std::string note_;                              // of a profiled run; others are described by their plans
};

}  // namespace lathe::cuda
