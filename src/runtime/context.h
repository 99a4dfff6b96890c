// SPDX-License-Identifier: Apache-2.0
//
// A context: the state of running one engine. Cheap; one per thread. Not to be used by two threads at a time.
//
// Set input shapes (static inputs need none), then run. Shapes are checked against the optimization profile.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "plan/optimization_profile.h"
#include "runtime/profiler.h"
#include "runtime/state.h"

namespace lathe {

class Engine;

class Context {
 public:
  Context(std::shared_ptr<const Engine> engine, int profile);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Engine& engine() const { return *engine_; }
  int profile() const { return profile_; }
  // Switches the optimization profile; shapes have to be set again.
  void set_profile(int index);

  // Throws Input for an unknown name, a wrong rank, or a dim that is static and different. The range is
  // checked when all shapes are known.
  void set_input_shape(std::string_view input, Extents extents);
  // Elements of a shape tensor (an input whose contents are dims).
  void set_input_values(std::string_view input, std::vector<int64_t> elements);
  // Every input that has no shape yet gets the profile's opt shape.
  void use_opt_shapes();

  // From now on these outputs stay in memory of the context and are the inputs of the next run, which is a
  // step: their shapes need not be set, and their addresses among the bindings are not used. Forgets state
  // that was kept before; so does set_profile(). Throws Input for a pair that cannot be state.
  void keep_state(std::span<const StatePair> pairs);
  // Null: none is kept.
  State* state() { return state_.get(); }
  const State* state() const { return state_.get(); }
  // State begins again with the next run.
  void reset_state();
  // State begins with these values, in linear format, now and after each reset.
  void set_state(std::string_view input, Tensor values);
  // What the next step will read.
  Tensor read_state(std::string_view input);
  // From here on shapes are those of the next step; before it, those of the last run. Runs and changed shapes
  // of inputs call it.
  void start_step();
  // Numbers of the inputs and outputs that are not state.
  std::vector<size_t> own_inputs() const;
  std::vector<size_t> own_outputs() const;
  // Inputs, besides state, with dims that are made of those of state (a mask [batch, past + 1]); and the
  // shapes of the next step for them.
  std::vector<size_t> inputs_that_follow() const;
  void follow_state();
  // What a tensor needs in all steps that the state may yet take.
  Extents largest_input_extents(size_t index);
  int64_t largest_output_bytes(size_t index);

  // Activations lie in memory of the caller, of the engine's device, until the profile is another; null: in
  // the context's own again. Throws Input where the backend has no such thing.
  int64_t memory_bytes() const;
  void use_memory(void* memory);

  // Checks shapes against the profile and prepares the execution. Called by the functions below; cheap when
  // nothing changed. Throws Input for a missing shape or one outside the profile.
  void resolve_shapes();
  // Names of the inputs whose shape, or elements that decide shapes, were not set yet.
  std::vector<std::string> inputs_without_shape() const;
  Extents input_extents(size_t index);
  // Data-dependent dims: before a run their upper bound, after it their value.
  Extents output_extents(size_t index);
  bool output_is_data_dependent(size_t index) const;
  int64_t input_bytes(size_t index);
  // Room that the output's binding must have (upper bound of data-dependent dims). 0 for one that the
  // execution holds.
  int64_t output_bytes(size_t index);
  // An output whose size nothing bounds lies in memory of the execution: its binding is not used, may be
  // null, and after a run held_output() says where it is, in backend memory, until the next one.
  bool output_is_held(size_t index) const;
  const void* held_output(size_t index) const { return execution_->held_output(index); }

  // Runs with host tensors, inputs in the engine's order, and sets input shapes from them. Throws Input when
  // a type, rank or extent does not fit. Inputs and outputs that are state are left out.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // Runs with addresses of all inputs, then all outputs, in backend memory, in the formats of TensorInfo.
  // Those of state may be null.
  void enqueue(std::span<void* const> bindings, Stream& stream);
  // The same, and adds each layer's time to `profiler`.
  void enqueue_profiled(std::span<void* const> bindings, Stream& stream, LayerProfiler& profiler);
  // The same, with a call before and after each layer (see Execution::run_observed); execution().read() sees
  // values.
  void enqueue_observed(std::span<void* const> bindings, Stream& stream, const Execution::LayerHook& hook);
  Execution& execution() { return *execution_; }
  // After a run: the output's bytes, from its binding or from where it is held, into a tensor of its extents.
  void copy_output(size_t index, Tensor& tensor, const void* binding, Stream& stream) const;

  int64_t device_bytes() const { return execution_->device_bytes() + (state_ ? state_->bytes() : 0); }
  std::string launch_note() const { return execution_->launch_note(); }

 private:
  size_t input_index(std::string_view name) const;
  std::string shapes_text() const;
  void set_inputs(std::span<const Tensor> inputs);
  // Ready to run: the state's addresses are among those of the caller, which are checked.
  std::span<void* const> bindings_of_run(std::span<void* const> bindings);
  void finish_run();
  // What the state's extents say of the next step, all other shapes as they are.
  void expect_next_step();
  void begin_state();
  State& state_for(std::string_view input);
  void forget_shape(size_t input);
  SymbolValues bind_symbols() const;
  SymbolValues symbols_besides_state() const;
  // Those that dims of state's inputs are, as its extents have them.
  void set_symbols_of_state(SymbolValues& values) const;
  bool changes_in_steps(const Shape& shape) const;
  Extents largest_extents(const Shape& shape) const;
  bool is_state_input(size_t index) const { return state_ && state_->has_input(index); }
  bool is_state_output(size_t index) const { return state_ && state_->has_output(index); }
  static void shrink(Tensor& tensor, const Extents& found);
  std::shared_ptr<const Engine> engine_;
  int profile_ = 0;
  std::unique_ptr<Execution> execution_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::optional<Extents>> shapes_;
  std::vector<std::optional<std::vector<int64_t>>> values_;
  SymbolValues symbols_;
  std::unique_ptr<State> state_;
  std::vector<void*> bindings_;  // of a run with state
  bool has_stepped_ = false;     // state is that of the next step, shapes are still those of the last run
  // Symbols of the step that the execution prepared while the last one ran, and how many in a row came with
  // others: a few, as behind a prompt of many tokens, and nothing is expected any more.
  std::optional<SymbolValues> expected_;
  int unexpected_ = 0;
  bool resolved_ = false;
  bool ran_ = false;
};

}  // namespace lathe
