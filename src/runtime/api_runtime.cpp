// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/api_bridge.h"

namespace lathe::v1 {

struct Profiler::Impl {
  std::unique_ptr<LayerProfiler> profiler;
};

struct ExecutionContext::Impl {
  std::unique_ptr<Context> context;
  std::unique_ptr<Stream> stream;
};

struct Runtime::Impl {
  Logger& logger;
  std::shared_ptr<const Backend> backend;
  Engine load(std::shared_ptr<const Plan> plan) {
    return Engine(
        std::make_shared<Engine::Impl>(Engine::Impl{lathe::Engine::load(std::move(plan), backend)}));
  }
};

// --- Profiler

Profiler::Profiler() : impl_(std::make_unique<Impl>()) {}
Profiler::~Profiler() = default;

std::vector<Profiler::Layer> Profiler::layers() const {
  std::vector<Layer> result;
  if (!impl_->profiler) return result;
  const LayerProfiler& p = *impl_->profiler;
  for (size_t i = 0; i < p.layers().size(); ++i)
    result.push_back({p.layers()[i], p.total_ms(i), p.average_ms(i), p.median_ms(i)});
  return result;
}
int Profiler::runs() const {
  return impl_->profiler ? impl_->profiler->runs() : 0;
}

// --- Engine

namespace {

const ShapeRange& range_of(const lathe::Engine& engine, std::string_view input, int profile) {
  const auto& p = engine.profile(profile);
  if (const auto it = p.shapes.find(input); it != p.shapes.end()) return it->second;
  throw_input_error("profile " + std::to_string(profile) + " has no range for an input '" +
                    std::string(input) + "' (it is unknown, or its shape is static)");
}

// Static inputs have the one shape; dynamic ones a range.
Dims dims_of(const lathe::Engine& engine, std::string_view input, int profile, Extents ShapeRange::*bound) {
  return translate_errors([&] {
    engine.profile(profile);
    for (const auto& t : engine.inputs())
      if (t.name == input && is_static(t.shape)) return to_extents(t.shape);
    return range_of(engine, input, profile).*bound;
  });
}

}  // namespace

std::vector<TensorInfo> Engine::inputs() const {
  return to_public(impl_->engine->inputs());
}
std::vector<TensorInfo> Engine::outputs() const {
  return to_public(impl_->engine->outputs());
}
int Engine::profile_count() const {
  return impl_->engine->profile_count();
}
Dims Engine::min_dims(std::string_view input, int profile) const {
  return dims_of(*impl_->engine, input, profile, &ShapeRange::min);
}
Dims Engine::opt_dims(std::string_view input, int profile) const {
  return dims_of(*impl_->engine, input, profile, &ShapeRange::opt);
}
Dims Engine::max_dims(std::string_view input, int profile) const {
  return dims_of(*impl_->engine, input, profile, &ShapeRange::max);
}
std::vector<std::string> Engine::layer_names(int profile) const {
  return translate_errors([&] { return impl_->engine->layer_names(profile); });
}
int64_t Engine::weight_bytes(int profile) const {
  return translate_errors([&] { return impl_->engine->memory_info(profile).weight_bytes; });
}
int64_t Engine::activation_bytes(int profile) const {
  return translate_errors([&] { return impl_->engine->memory_info(profile).activation_bytes; });
}
ExecutionContext Engine::create_context(int profile) const {
  return translate_errors([&] {
    return ExecutionContext(std::make_unique<ExecutionContext::Impl>(ExecutionContext::Impl{
        impl_->engine->create_context(profile), impl_->engine->backend()->create_stream()}));
  });
}
void Engine::save(const std::string& path) const {
  translate_errors([&] { impl_->engine->save(path); });
}
std::vector<std::byte> Engine::serialize() const {
  return translate_errors([&] { return impl_->engine->plan()->to_bytes(); });
}

// --- ExecutionContext

ExecutionContext::ExecutionContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExecutionContext::ExecutionContext(ExecutionContext&&) noexcept = default;
ExecutionContext& ExecutionContext::operator=(ExecutionContext&&) noexcept = default;
ExecutionContext::~ExecutionContext() = default;

std::vector<HostTensor> ExecutionContext::run(const std::vector<HostTensor>& inputs) {
  return translate_errors([&] {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& infos = impl_->context->engine().inputs();
      tensors.push_back(borrow(inputs[i], i < infos.size() ? infos[i].name : "number " + std::to_string(i)));
    }
    std::vector<HostTensor> outputs;
    for (const Tensor& t : impl_->context->run(tensors)) {
      HostTensor& out = outputs.emplace_back(to_data_type(t.dtype()), t.extents());
      std::memcpy(out.bytes.data(), t.bytes().data(), out.bytes.size());
    }
    return outputs;
  });
}
void ExecutionContext::set_input_dims(std::string_view input, const Dims& dims) {
  translate_errors([&] { impl_->context->set_input_shape(input, dims); });
}
void ExecutionContext::set_input_values(std::string_view input, const std::vector<int64_t>& elements) {
  translate_errors([&] { impl_->context->set_input_values(input, elements); });
}

namespace {

void check_index(size_t index, size_t count, const char* what) {
  if (index >= count)
    throw_input_error("the engine has " + std::to_string(count) + " " + what + "; there is no number " +
                      std::to_string(index));
}

}  // namespace

size_t ExecutionContext::input_bytes(size_t index) {
  return translate_errors([&] {
    check_index(index, impl_->context->engine().inputs().size(), "inputs");
    return static_cast<size_t>(impl_->context->input_bytes(index));
  });
}
size_t ExecutionContext::output_bytes(size_t index) {
  return translate_errors([&] {
    check_index(index, impl_->context->engine().outputs().size(), "outputs");
    return static_cast<size_t>(impl_->context->output_bytes(index));
  });
}
Dims ExecutionContext::output_dims(size_t index) {
  return translate_errors([&] {
    check_index(index, impl_->context->engine().outputs().size(), "outputs");
    return impl_->context->output_extents(index);
  });
}
void ExecutionContext::enqueue(std::span<void* const> bindings) {
  translate_errors([&] {
    impl_->context->enqueue(bindings, *impl_->stream);
    impl_->stream->synchronize();
  });
}
void ExecutionContext::enqueue_profiled(std::span<void* const> bindings, Profiler& profiler) {
  translate_errors([&] {
    auto& layers = profiler.impl_->profiler;
    auto names = impl_->context->engine().layer_names(impl_->context->profile());
    if (layers && layers->layers() != names)
      throw_input_error("a profiler can be used with one engine and one optimization profile only");
    if (!layers) layers = std::make_unique<LayerProfiler>(std::move(names));
    impl_->context->enqueue_profiled(bindings, *impl_->stream, *layers);
  });
}
void ExecutionContext::set_profile(int index) {
  translate_errors([&] { impl_->context->set_profile(index); });
}
int64_t ExecutionContext::device_bytes() const {
  return impl_->context->device_bytes();
}

// --- Runtime

Runtime::Runtime(Logger& logger, const DeviceConfig& device) {
  translate_errors([&] {
    impl_ = std::unique_ptr<Impl>(new Impl{logger, open_backend(to_device_options(device))});
  });
}
Runtime::~Runtime() = default;

Engine Runtime::load(const std::string& path) {
  return translate_errors([&] { return impl_->load(Plan::read(path)); });
}
Engine Runtime::load(std::vector<std::byte> bytes) {
  return translate_errors([&] { return impl_->load(Plan::from_bytes(std::move(bytes), "(memory)")); });
}
std::string Runtime::device_description() const {
  return impl_->backend->target().description;
}

}  // namespace lathe::v1
