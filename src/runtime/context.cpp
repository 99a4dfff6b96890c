// SPDX-License-Identifier: Apache-2.0
#include "runtime/context.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "backend/caller_memory.h"
#include "backend/nested_layers.h"
#include "backend/storage_layout.h"
#include "base/error.h"
#include "ir/dim_clamps.h"
#include "runtime/engine.h"

namespace lathe {
namespace {

constexpr int kMostUnexpected = 4;

}  // namespace

Context::Context(std::shared_ptr<const Engine> engine, int profile) : engine_(std::move(engine)) {
  stream_ = engine_->backend()->create_stream();
  set_profile(profile);
}

Context::~Context() = default;

void Context::set_profile(int index) {
  state_.reset();
  has_stepped_ = false;
  execution_ = engine_->program(index).create_execution();
  profile_ = index;
  shapes_.assign(engine_->inputs().size(), std::nullopt);
  values_.assign(engine_->inputs().size(), std::nullopt);
  for (size_t i = 0; i < shapes_.size(); ++i) forget_shape(i);
  resolved_ = ran_ = false;
}

int64_t Context::memory_bytes() const {
  const auto* execution = dynamic_cast<const CallerMemory*>(execution_.get());
  return execution != nullptr ? execution->arena_bytes() : 0;
}

void Context::use_memory(void* memory) {
  auto* execution = dynamic_cast<CallerMemory*>(execution_.get());
  if (execution == nullptr) throw_input_error("the backend's executions have memory of their own only");
  execution->use_arena(memory);
  resolved_ = false;
}

void Context::forget_shape(size_t input) {
  const Shape& shape = engine_->inputs()[input].shape;
  shapes_[input].reset();
  if (is_static(shape)) shapes_[input] = to_extents(shape);
}

size_t Context::input_index(std::string_view name) const {
  std::string names;
  for (size_t i = 0; i < engine_->inputs().size(); ++i) {
    if (engine_->inputs()[i].name == name) return i;
    names += (i ? ", " : "") + engine_->inputs()[i].name;
  }
  throw_input_error("the engine has no input '" + std::string(name) + "'; its inputs are: " + names);
}

void Context::set_input_shape(std::string_view input, Extents extents) {
  const size_t i = input_index(input);
  if (is_state_input(i))
    throw_input_error(
        "input '" + std::string(input) +
        "' is state that the context keeps: its shape follows from its first values and the steps since");
  SymbolBinder().bind_shape(engine_->inputs()[i], extents);  // rank and static dims
  if (shapes_[i] == extents) return;
  start_step();
  shapes_[i] = std::move(extents);
  resolved_ = false;
}

void Context::set_input_values(std::string_view input, std::vector<int64_t> elements) {
  const size_t i = input_index(input);
  if (!engine_->inputs()[i].contents)
    throw_input_error("input '" + std::string(input) +
                      "' is no shape tensor: its elements do not decide shapes");
  if (values_[i] == elements) return;
  start_step();
  values_[i] = std::move(elements);
  resolved_ = false;
}

void Context::use_opt_shapes() {
  const OptimizationProfile& profile = engine_->profile(profile_);
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const TensorInfo& input = engine_->inputs()[i];
    if (is_state_input(i)) continue;
    if (const auto it = profile.shapes.find(input.name); it != profile.shapes.end() && !shapes_[i])
      shapes_[i] = it->second.opt, resolved_ = false;
    if (const auto it = profile.values.find(input.name); it != profile.values.end() && !values_[i])
      values_[i] = it->second.opt, resolved_ = false;
  }
}

void Context::keep_state(std::span<const StatePair> pairs) {
  auto state = pairs.empty() ? nullptr : std::make_unique<State>(*engine_, profile_, pairs, *execution_);
  const auto forget_shapes = [&] {
    for (size_t i = 0; i < shapes_.size(); ++i)
      if (is_state_input(i)) forget_shape(i);
  };
  forget_shapes();
  state_ = std::move(state);
  forget_shapes();
  resolved_ = ran_ = has_stepped_ = false;
  expected_.reset();
  unexpected_ = 0;
}

void Context::reset_state() {
  if (!state_) return;
  state_->reset();
  resolved_ = ran_ = has_stepped_ = false;
  expected_.reset();
}

void Context::set_state(std::string_view input, Tensor values) {
  state_for(input).set(state_->find(input), std::move(values));
  resolved_ = ran_ = has_stepped_ = false;
  expected_.reset();
}

Tensor Context::read_state(std::string_view input) {
  const State& state = state_for(input);
  return state.read(state.find(input), *stream_);
}

State& Context::state_for(std::string_view input) {
  if (state_) return *state_;
  throw_input_error("input '" + std::string(input) +
                    "' is no state: keep_state() says first which inputs are");
}

void Context::start_step() {
  if (has_stepped_) resolved_ = false;
  has_stepped_ = false;
}

// Of the inputs that the caller gives, without those that steps change.
SymbolValues Context::symbols_besides_state() const {
  const std::set<std::string>& changing = state_->changing_symbols();
  SymbolValues known;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    if (!shapes_[i] || is_state_input(i)) continue;
    const Shape& shape = engine_->inputs()[i].shape;
    for (size_t d = 0; d < shape.size(); ++d)
      if (const auto symbol = shape[d].as_symbol(); symbol && !changing.contains(*symbol))
        known.emplace(*symbol, (*shapes_[i])[d]);
  }
  return known;
}

// Extents of state become shapes of inputs.
void Context::begin_state() {
  state_->begin(symbols_besides_state(), *stream_);
  state_->check_room();
  for (size_t pair = 0; pair < state_->size(); ++pair) shapes_[state_->input(pair)] = state_->extents(pair);
}

bool Context::changes_in_steps(const Shape& shape) const {
  const std::set<std::string>& changing = state_->changing_symbols();
  return std::any_of(shape.begin(), shape.end(), [&](const Dim& dim) {
    const std::set<std::string> symbols = dim.symbols();
    return std::any_of(changing.begin(), changing.end(),
                       [&](const std::string& s) { return symbols.contains(s); });
  });
}

std::vector<size_t> Context::inputs_that_follow() const {
  std::vector<size_t> following;
  for (const size_t i : own_inputs())
    if (state_ && changes_in_steps(engine_->inputs()[i].shape)) following.push_back(i);
  return following;
}

void Context::set_symbols_of_state(SymbolValues& values) const {
  for (size_t pair = 0; pair < state_->size(); ++pair) {
    const Shape& shape = engine_->inputs()[state_->input(pair)].shape;
    for (size_t d = 0; d < shape.size(); ++d)
      if (const auto symbol = shape[d].as_symbol()) values[*symbol] = state_->extents(pair)[d];
  }
}

void Context::follow_state() {
  if (!state_) return;
  start_step();
  begin_state();
  SymbolValues known = symbols_besides_state();
  set_symbols_of_state(known);
  for (const size_t i : inputs_that_follow()) {
    Extents extents;
    for (const Dim& dim : engine_->inputs()[i].shape) extents.push_back(dim.evaluate(known));
    set_input_shape(engine_->inputs()[i].name, std::move(extents));
  }
}

void Context::resolve_shapes() {
  if (resolved_) return;
  if (state_) begin_state();
  const SymbolValues symbols = bind_symbols();
  check_in_range(engine_->inputs(), symbols, engine_->variant(profile_).ranges);
  try {
    execution_->set_shapes(symbols);
  } catch (Error& error) {
    if (error.kind() == ErrorKind::Input) error.add_context("the engine cannot run with " + shapes_text());
    throw;
  }
  if (expected_) unexpected_ = *expected_ == symbols ? 0 : unexpected_ + 1;
  expected_.reset();
  symbols_ = symbols;
  resolved_ = true;
  ran_ = false;
}

SymbolValues Context::bind_symbols() const try {
  SymbolBinder binder;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const TensorInfo& input = engine_->inputs()[i];
    if (!shapes_[i])
      throw_input_error("input '" + input.name + "' has the dynamic shape " + to_string(input.shape) +
                            ", and no shape was set for it",
                        ErrorCode::InvalidState);
    binder.bind_shape(input, *shapes_[i]);
    if (!input.contents || is_static(*input.contents)) continue;
    if (!values_[i])
      throw_input_error("the elements of shape tensor '" + input.name + "' decide shapes, and none were set",
                        ErrorCode::InvalidState);
    binder.bind_contents(input, *values_[i]);
  }
  return binder.finish();
} catch (Error& error) {
  if (state_ && state_->has_stepped())
    error.add_context("with state of the steps before, which a reset would end");
  throw;
}

std::vector<std::string> Context::inputs_without_shape() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const TensorInfo& input = engine_->inputs()[i];
    const bool decides = input.contents && !is_static(*input.contents);
    if (is_state_input(i)) continue;
    if (!shapes_[i] || (decides && !values_[i])) names.push_back(input.name);
  }
  return names;
}

// "x: 1x40x4, mask: 1x40", of the dynamic inputs.
std::string Context::shapes_text() const {
  std::string text;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const TensorInfo& input = engine_->inputs()[i];
    if (!is_static(input.shape))
      text += (text.empty() ? "" : ", ") + input.name + ": " + to_string(*shapes_[i]);
    if (values_[i])
      text += (text.empty() ? "" : ", ") + ("the elements of " + input.name) + ": " + to_string(*values_[i]);
  }
  return text.empty() ? "the model's static shapes" : text;
}

Extents Context::input_extents(size_t index) {
  resolve_shapes();
  return *shapes_.at(index);
}

Extents Context::output_extents(size_t index) {
  resolve_shapes();
  const Graph& graph = engine_->graph(profile_);
  const ValueId id = graph.outputs().at(index);
  if (ran_ || !output_is_data_dependent(index)) return execution_->extents(id);
  Extents most;  // a data-dependent dim at its upper bound
  SymbolRanges now;
  for (const auto& [symbol, value] : symbols_) now[symbol] = {.min = value, .opt = value, .max = value};
  for (const Dim& d : graph.value(id).shape) most.push_back(largest(d, now));
  return most;
}

bool Context::output_is_data_dependent(size_t index) const {
  const Graph& graph = engine_->graph(profile_);
  for (const Dim& d : graph.value(graph.outputs().at(index)).shape)
    if (!d.data_dependent_names().empty()) return true;
  return false;
}

int64_t Context::input_bytes(size_t index) {
  const TensorInfo& input = engine_->inputs().at(index);
  return storage_bytes(input.dtype, input_extents(index), input.format);
}

bool Context::output_is_held(size_t index) const {
  const auto& placements = engine_->variant(profile_).memory.placements;
  const Placement* placement = &placements[static_cast<size_t>(engine_->graph(profile_).outputs().at(index))];
  if (placement->kind == Placement::Kind::View) placement = &placements[static_cast<size_t>(placement->base)];
  return placement->kind == Placement::Kind::Grown;
}

// Symbols that steps change at their largest, the others as they are.
Extents Context::largest_extents(const Shape& shape) const {
  const std::set<std::string> changing = state_ ? state_->changing_symbols() : std::set<std::string>{};
  SymbolRanges ranges;
  for (const auto& [symbol, value] : symbols_) {
    const bool changes = changing.contains(symbol);
    ranges[symbol] =
        changes ? engine_->variant(profile_).ranges.at(symbol) : SymbolRange{value, value, value};
  }
  Extents most;
  for (const Dim& d : shape) most.push_back(largest(d, ranges));
  return most;
}

Extents Context::largest_input_extents(size_t index) {
  resolve_shapes();
  return largest_extents(engine_->inputs().at(index).shape);
}

int64_t Context::largest_output_bytes(size_t index) {
  const int64_t now = output_bytes(index);
  if (!state_ || output_is_held(index)) return now;
  const Graph& graph = engine_->graph(profile_);
  const Extents most = largest_extents(graph.value(graph.outputs().at(index)).shape);
  const TensorInfo& output = engine_->outputs().at(index);
  return std::max(now, storage_bytes(output.dtype, most, output.format));
}

int64_t Context::output_bytes(size_t index) {
  if (output_is_held(index)) return 0;
  const bool ran = ran_;
  ran_ = false;  // the bound, not what the last run found
  const Extents extents = output_extents(index);
  ran_ = ran && resolved_;
  const TensorInfo& output = engine_->outputs().at(index);
  return storage_bytes(output.dtype, extents, output.format);
}

void Context::enqueue(std::span<void* const> bindings, Stream& stream) {
  execution_->run(bindings_of_run(bindings), stream);
  finish_run();
}

void Context::enqueue_profiled(std::span<void* const> bindings, Stream& stream, LayerProfiler& profiler) {
  const std::span<void* const> all = bindings_of_run(bindings);
  const Graph& graph = engine_->graph(profile_);
  std::vector<double> time_ms(timed_count(graph));
  execution_->run_profiled(all, stream, time_ms);
  profiler.add_run(in_order_of_layers(graph, time_ms));
  finish_run();
}

void Context::enqueue_observed(std::span<void* const> bindings, Stream& stream,
                               const Execution::LayerHook& hook) {
  execution_->run_observed(bindings_of_run(bindings), stream, hook);
  finish_run();
}

void Context::finish_run() {
  ran_ = true;
  if (!state_) return;
  state_->advance();
  has_stepped_ = true;
  if (unexpected_ < kMostUnexpected && !state_->is_full()) expect_next_step();
}

void Context::expect_next_step() {
  SymbolValues next = symbols_;
  set_symbols_of_state(next);
  if (next == symbols_) return;
  try {
    execution_->expect_shapes(next);
  } catch (const Error&) {  // the step itself will say it, if it comes
  }
  expected_ = std::move(next);
}

std::span<void* const> Context::bindings_of_run(std::span<void* const> bindings) {
  start_step();
  resolve_shapes();
  const size_t inputs = engine_->inputs().size(), expected = inputs + engine_->outputs().size();
  if (bindings.size() != expected)
    throw_input_error("a run needs " + std::to_string(expected) + " bindings (" + std::to_string(inputs) +
                      " inputs, then " + std::to_string(engine_->outputs().size()) +
                      " outputs), but was given " + std::to_string(bindings.size()));
  for (size_t i = 0; i < bindings.size(); ++i) {
    const bool unused =
        i < inputs ? is_state_input(i) : output_is_held(i - inputs) || is_state_output(i - inputs);
    if (bindings[i] == nullptr && !unused) throw_input_error("binding " + std::to_string(i) + " is null");
  }
  if (!state_) return bindings;
  bindings_.assign(bindings.begin(), bindings.end());
  state_->bind(bindings_);
  return bindings_;
}

std::vector<size_t> Context::own_inputs() const {
  std::vector<size_t> own;
  for (size_t i = 0; i < engine_->inputs().size(); ++i)
    if (!is_state_input(i)) own.push_back(i);
  return own;
}
std::vector<size_t> Context::own_outputs() const {
  std::vector<size_t> own;
  for (size_t k = 0; k < engine_->outputs().size(); ++k)
    if (!is_state_output(k)) own.push_back(k);
  return own;
}

std::vector<Tensor> Context::run(std::span<const Tensor> linear_inputs) {
  start_step();
  set_inputs(linear_inputs);
  resolve_shapes();
  const std::vector<size_t> own_in = own_inputs(), own_out = own_outputs();
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < linear_inputs.size(); ++i)
    inputs.push_back(in_format(linear_inputs[i], engine_->inputs()[own_in[i]].format));
  const Backend& backend = *engine_->backend();
  std::vector<Tensor> outputs;
  const auto room_for = [&](size_t k, const Extents& extents) {
    const TensorInfo& output = engine_->outputs()[k];
    return allocate_stored({output.dtype, output.format}, extents);
  };
  for (const size_t k : own_out) {
    ran_ = false;
    outputs.push_back(output_is_held(k) ? Tensor::allocate(DType::UInt8, {0})
                                        : room_for(k, output_extents(k)));
  }
  std::vector<void*> bindings(engine_->inputs().size() + engine_->outputs().size(), nullptr);
  std::vector<std::unique_ptr<Buffer>> buffers;
  const auto bind = [&](const Tensor& tensor, size_t number, bool is_input) {
    auto* host = const_cast<std::byte*>(tensor.bytes().data());
    bindings[number] = host;
    if (backend.is_host()) return;
    buffers.push_back(backend.allocate(tensor.bytes().size()));
    if (is_input) backend.copy_to_device(buffers.back()->data(), host, tensor.bytes().size(), *stream_);
    bindings[number] = buffers.back()->data();
  };
  const size_t first_output = engine_->inputs().size();
  for (size_t i = 0; i < inputs.size(); ++i) bind(inputs[i], own_in[i], true);
  for (size_t i = 0; i < outputs.size(); ++i) bind(outputs[i], first_output + own_out[i], false);
  enqueue(bindings, *stream_);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t k = own_out[i];
    if (output_is_held(k)) outputs[i] = room_for(k, output_extents(k));
    if (output_is_held(k) || !backend.is_host())
      copy_output(k, outputs[i], bindings[first_output + k], *stream_);
  }
  stream_->synchronize();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorInfo& output = engine_->outputs()[own_out[i]];
    const Extents found = output_extents(own_out[i]);
    if (output.format.is_linear())
      shrink(outputs[i], found);
    else
      outputs[i] = to_linear({output.dtype, output.format}, found, outputs[i].bytes().data());
  }
  return outputs;
}

void Context::copy_output(size_t index, Tensor& tensor, const void* binding, Stream& stream) const {
  if (tensor.bytes().empty()) return;
  const void* from = output_is_held(index) ? held_output(index) : binding;
  engine_->backend()->copy_to_host(tensor.mutable_bytes().data(), from, tensor.bytes().size(), stream);
}

void Context::set_inputs(std::span<const Tensor> inputs) {
  const std::vector<size_t> own = own_inputs();
  if (inputs.size() != own.size())
    throw_input_error("the engine has " + std::to_string(own.size()) + " inputs" +
                      (state_ ? " besides those that are state" : "") + ", but was given " +
                      std::to_string(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& info = engine_->inputs()[own[i]];
    if (inputs[i].dtype() != info.dtype)
      throw_input_error("input '" + info.name + "' has type " + std::string(dtype_name(info.dtype)) +
                        ", but was given " + std::string(dtype_name(inputs[i].dtype())));
    set_input_shape(info.name, inputs[i].extents());
    if (info.contents) set_input_values(info.name, inputs[i].to_int64s());
  }
}

// A data-dependent output has room for its bound; what was found is a prefix of it.
void Context::shrink(Tensor& tensor, const Extents& found) {
  if (tensor.extents() == found) return;
  Tensor smaller = Tensor::allocate(tensor.dtype(), found);
  check(smaller.bytes().size() <= tensor.bytes().size(), "an output is larger than its bound");
  std::memcpy(smaller.mutable_bytes().data(), tensor.bytes().data(), smaller.bytes().size());
  tensor = std::move(smaller);
}

}  // namespace lathe
