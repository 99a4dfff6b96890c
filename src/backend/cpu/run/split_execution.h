// SPDX-License-Identifier: Apache-2.0
//
// The state of running a program whose batch is split (backend/batch_split.h): every thread has an execution
// of its own and takes the next part when it has done one, so a slow core gets fewer. With fewer parts than
// threads the whole team works on one part after the other.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/run/execution.h"

namespace lathe::cpu {

class SplitExecution final : public Execution, public CallerMemory {
 public:
  explicit SplitExecution(std::shared_ptr<const CpuProgram> program);

  void set_shapes(const SymbolValues& values) override;
  void run(std::span<void* const> bindings, Stream& stream) override;
  // The times of the thread that was busy longest, over all its parts: their sum is the time of the run.
  void run_profiled(std::span<void* const> bindings, Stream& stream, std::span<double> time_ms) override;
  // Layer by layer over the whole batch, with memory for all parts.
  void run_observed(std::span<void* const> bindings, Stream& stream, const LayerHook& hook) override;
  Tensor read(ValueId value) override;
  Extents extents(ValueId value) const override;
  int64_t device_bytes() const override;
  int64_t arena_bytes() const override;
  void use_arena(void* memory) override;
  void expect_arena() override;

 private:
  const BatchSplit& split() const { return program_->spec().split; }
  int64_t batch() const { return symbols_.at(split().symbol); }
  // The split's part, or less, so that no thread gets more than the others: 5 items in parts of up to 4 are 3
  // and 2 for two threads.
  int64_t part_items() const;
  // None where no result has elements: a batch of 2^31 - 1 items of nothing takes no time.
  int64_t part_count() const { return has_results_ ? (batch() + part_items() - 1) / part_items() : 0; }
  SymbolValues symbols_of_part(int64_t part) const;
  bool by_team() const { return part_count() < program_->machine().threads; }
  bool is_split(ValueId value) const;
  // Calls `body(execution, part's bindings, member)` for each part, on the thread that takes it.
  template <class Body>
  void for_each_part(std::span<void* const> bindings, const Body& body);
  std::vector<void*> bindings_of_part(std::span<void* const> bindings, int64_t part) const;

  // Of the arena, so that the next one is aligned, too.
  int64_t member_bytes() const { return (members_[0]->arena_bytes() + 63) / 64 * 64; }

  std::shared_ptr<const CpuProgram> program_;
  std::vector<std::unique_ptr<CpuExecution>> members_;   // one each, of one thread
  std::unique_ptr<CpuExecution> team_;                   // of all; made when it is needed
  std::vector<std::unique_ptr<CpuExecution>> observed_;  // one per part, during run_observed
  bool expects_arena_ = false;
  void* callers_arena_ = nullptr;    // of all members, or of the team
  std::vector<int64_t> item_bytes_;  // per binding; 0: all parts share it
  bool has_results_ = true;
  SymbolValues symbols_;
};

}  // namespace lathe::cpu
