// SPDX-License-Identifier: Apache-2.0
//
// A run of layers at concrete shapes, ready to execute: prepared kernels, addresses of all operands, and the
// places where the team must meet. Made once per shapes; a run only patches the caller's buffers in.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/run/appended.h"
#include "backend/cpu/run/program.h"
#include "backend/grown_memory.h"
#include "backend/operand_table.h"

namespace lathe::cpu {

struct Step {
  std::shared_ptr<const PreparedLayer> prepared;  // null: nothing to do (a view, or no elements)
  int members = 1;
};

// Steps [begin, end) that need no meeting among them: piece i of all of them, in order, is work for one
// thread.
struct StepGroup {
  size_t begin = 0, end = 0;
  int pieces = 0;
  bool meets = false;  // one step that shares its work out itself
};

class ShapePlan {
 public:
  // Layers [first, last). `symbols` has all that these layers' inputs need. What `like`, a plan of the same
  // layers, has prepared for the same values of a layer's symbols is shared: of a decoder's step one layer in
  // ten knows how long the past is.
  ShapePlan(const CpuProgram& program, size_t first, size_t last, const SymbolValues& symbols, int threads,
            const Appended& appended = {}, const ShapePlan* like = nullptr);

  const SymbolValues& symbols() const { return symbols_; }
  size_t first_layer() const { return first_; }
  std::vector<Step>& steps() { return steps_; }
  int team() const { return team_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  // Sets the addresses that are not known at preparation. Cheap when they are those of the last call.
  // Memory whose size these symbols say is taken from `grown`, which stays for as long as steps run.
  void bind(std::byte* arena, std::span<void* const> bindings, GrownMemory& grown);
  LayerArgs args(size_t index, std::byte* scratch) const {
    return {operands_.inputs(index), operands_.outputs(index), scratch};
  }

  // Runs all steps; called by every member of the team.
  void walk(const Worker& worker, std::byte* scratch) const;
  // The same with a meeting after each layer: time_ms[i] for the i-th step, written by member 0, and behind
  // them those of the layers of bodies (nested_layers.h), or nothing.
  void walk_timed(const Worker& worker, std::byte* scratch, std::span<double> time_ms) const;
  void run_step(size_t index, const Worker& worker, std::byte* scratch,
                std::span<double> nested_ms = {}) const;

 private:
  void prepare_step(size_t index, const Appended& appended);
  void run_group(const StepGroup& group, const Worker& worker, std::byte* scratch,
                 std::span<double> nested_ms = {}) const;
  void find_groups();
  bool finds_size_at(size_t step, ValueId result) const;

  const CpuProgram& program_;
  int threads_ = 1;
  size_t first_ = 0;
  SymbolValues symbols_;
  std::vector<Step> steps_;
  std::vector<StepGroup> groups_;
  OperandTable operands_;
  GrownResults grown_results_;
  GrownMemory* grown_ = nullptr;
  int team_ = 1;
  size_t scratch_bytes_ = 0;
};

}  // namespace lathe::cpu
