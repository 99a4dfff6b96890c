// SPDX-License-Identifier: Apache-2.0
#include "runtime/context.h"

#include <cstring>

#include "base/error.h"
#include "ir/dim_clamps.h"
#include "runtime/engine.h"
#include "runtime/io_memory.h"

namespace lathe {

Context::Context(std::shared_ptr<const Engine> engine, int profile) : engine_(std::move(engine)) {
  stream_ = engine_->backend()->create_stream();
  set_profile(profile);
}

Context::~Context() = default;

void Context::set_profile(int index) {
  execution_ = engine_->program(index).create_execution();
  profile_ = index;
  shapes_.assign(engine_->inputs().size(), std::nullopt);
  values_.assign(engine_->inputs().size(), std::nullopt);
  for (size_t i = 0; i < shapes_.size(); ++i)
    if (is_static(engine_->inputs()[i].shape)) shapes_[i] = to_extents(engine_->inputs()[i].shape);
  resolved_ = ran_ = false;
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
  SymbolBinder().bind_shape(engine_->inputs()[i], extents);  // rank and static dims
  if (shapes_[i] == extents) return;
  shapes_[i] = std::move(extents);
  resolved_ = false;
}

void Context::set_input_values(std::string_view input, std::vector<int64_t> elements) {
  const size_t i = input_index(input);
  if (!engine_->inputs()[i].contents)
    throw_input_error("input '" + std::string(input) +
                      "' is no shape tensor: its elements do not decide shapes");
  if (values_[i] == elements) return;
  values_[i] = std::move(elements);
  resolved_ = false;
}

void Context::use_opt_shapes() {
  const OptimizationProfile& profile = engine_->profile(profile_);
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const TensorInfo& input = engine_->inputs()[i];
    if (const auto it = profile.shapes.find(input.name); it != profile.shapes.end() && !shapes_[i])
      shapes_[i] = it->second.opt, resolved_ = false;
    if (const auto it = profile.values.find(input.name); it != profile.values.end() && !values_[i])
      values_[i] = it->second.opt, resolved_ = false;
  }
}

void Context::resolve_shapes() {
  if (resolved_) return;
  SymbolBinder binder;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const TensorInfo& input = engine_->inputs()[i];
    if (!shapes_[i])
      throw_input_error("input '" + input.name + "' has the dynamic shape " + to_string(input.shape) +
                        ", and no shape was set for it");
    binder.bind_shape(input, *shapes_[i]);
    if (!input.contents || is_static(*input.contents)) continue;
    if (!values_[i])
      throw_input_error("the elements of shape tensor '" + input.name + "' decide shapes, and none were set");
    binder.bind_contents(input, *values_[i]);
  }
  const SymbolValues symbols = binder.finish();
  check_in_range(engine_->inputs(), symbols, engine_->variant(profile_).ranges);
  try {
    execution_->set_shapes(symbols);
  } catch (Error& error) {
    if (error.kind() == ErrorKind::Input) error.add_context("the engine cannot run with " + shapes_text());
    throw;
  }
  symbols_ = symbols;
  resolved_ = true;
  ran_ = false;
}

std::vector<std::string> Context::inputs_without_shape() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const TensorInfo& input = engine_->inputs()[i];
    const bool decides = input.contents && !is_static(*input.contents);
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
  return dtype_bytes(engine_->inputs().at(index).dtype, element_count(input_extents(index)));
}

bool Context::output_is_held(size_t index) const {
  const auto& placements = engine_->variant(profile_).memory.placements;
  const Placement* placement = &placements[static_cast<size_t>(engine_->graph(profile_).outputs().at(index))];
  if (placement->kind == Placement::Kind::View) placement = &placements[static_cast<size_t>(placement->base)];
  return placement->kind == Placement::Kind::Grown;
}

int64_t Context::output_bytes(size_t index) {
  if (output_is_held(index)) return 0;
  const bool ran = ran_;
  ran_ = false;  // the bound, not what the last run found
  const Extents extents = output_extents(index);
  ran_ = ran && resolved_;
  return dtype_bytes(engine_->outputs().at(index).dtype, element_count(extents));
}

void Context::enqueue(std::span<void* const> bindings, Stream& stream) {
  check_bindings(bindings);
  execution_->run(bindings, stream);
  ran_ = true;
}

void Context::enqueue_profiled(std::span<void* const> bindings, Stream& stream, LayerProfiler& profiler) {
  check_bindings(bindings);
  std::vector<double> time_ms(engine_->graph(profile_).order().size());
  execution_->run_profiled(bindings, stream, time_ms);
  profiler.add_run(time_ms);
  ran_ = true;
}

void Context::enqueue_observed(std::span<void* const> bindings, Stream& stream,
                               const Execution::LayerHook& hook) {
  check_bindings(bindings);
  execution_->run_observed(bindings, stream, hook);
  ran_ = true;
}

void Context::check_bindings(std::span<void* const> bindings) {
  resolve_shapes();
  const size_t expected = engine_->inputs().size() + engine_->outputs().size();
  if (bindings.size() != expected)
    throw_input_error("a run needs " + std::to_string(expected) + " bindings (" +
                      std::to_string(engine_->inputs().size()) + " inputs, then " +
                      std::to_string(engine_->outputs().size()) + " outputs), but was given " +
                      std::to_string(bindings.size()));
  for (size_t i = 0; i < bindings.size(); ++i)
    if (bindings[i] == nullptr &&
        !(i >= engine_->inputs().size() && output_is_held(i - engine_->inputs().size())))
      throw_input_error("binding " + std::to_string(i) + " is null");
}

std::vector<Tensor> Context::run(std::span<const Tensor> linear_inputs) {
  set_inputs(linear_inputs);
  resolve_shapes();
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < linear_inputs.size(); ++i)
    inputs.push_back(reordered(linear_inputs[i], kLinear, engine_->inputs()[i].format));
  const Backend& backend = *engine_->backend();
  std::vector<Tensor> outputs;
  for (size_t k = 0; k < engine_->outputs().size(); ++k) {
    ran_ = false;
    const Extents room = output_is_held(k) ? Extents{0} : output_extents(k);
    outputs.push_back(Tensor::allocate(engine_->outputs()[k].dtype, room));
  }
  std::vector<void*> bindings;
  std::vector<std::unique_ptr<Buffer>> buffers;
  const auto bind = [&](const Tensor& tensor, bool is_input) {
    auto* host = const_cast<std::byte*>(tensor.bytes().data());
    if (backend.is_host()) return bindings.push_back(host);
    buffers.push_back(backend.allocate(tensor.bytes().size()));
    if (is_input) backend.copy_to_device(buffers.back()->data(), host, tensor.bytes().size(), *stream_);
    bindings.push_back(buffers.back()->data());
  };
  for (const Tensor& t : inputs) bind(t, true);
  for (const Tensor& t : outputs) bind(t, false);
  enqueue(bindings, *stream_);
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (output_is_held(k)) outputs[k] = Tensor::allocate(outputs[k].dtype(), output_extents(k));
    if (output_is_held(k) || !backend.is_host())
      copy_output(k, outputs[k], bindings[inputs.size() + k], *stream_);
  }
  stream_->synchronize();
  for (size_t k = 0; k < outputs.size(); ++k) {
    shrink(outputs[k], output_extents(k));
    outputs[k] = reordered(outputs[k], engine_->outputs()[k].format, kLinear);
  }
  return outputs;
}

void Context::copy_output(size_t index, Tensor& tensor, const void* binding, Stream& stream) const {
  if (tensor.bytes().empty()) return;
  const void* from = output_is_held(index) ? held_output(index) : binding;
  engine_->backend()->copy_to_host(tensor.mutable_bytes().data(), from, tensor.bytes().size(), stream);
}

void Context::set_inputs(std::span<const Tensor> inputs) {
  if (inputs.size() != engine_->inputs().size())
    throw_input_error("the engine has " + std::to_string(engine_->inputs().size()) +
                      " inputs, but was given " + std::to_string(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& info = engine_->inputs()[i];
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
