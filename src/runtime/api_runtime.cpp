// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/file.h"
#include "runtime/api_bridge.h"

namespace lathe::v1 {

struct Runtime::Impl {
  Logger& logger;
  std::shared_ptr<const Backend> backend;
  std::shared_ptr<PluginSource> plugins;
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

std::vector<int64_t> values_of(const lathe::Engine& engine, std::string_view input, int profile,
                               Extents ShapeRange::*bound) {
  return translate_errors([&]() -> std::vector<int64_t> {
    const auto& values = engine.profile(profile).values;
    if (const auto it = values.find(input); it != values.end()) return it->second.*bound;
    throw_input_error("profile " + std::to_string(profile) + " has no range for the elements of '" +
                      std::string(input) + "' (it is unknown, or no shape tensor)");
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
std::vector<int64_t> Engine::min_values(std::string_view input, int profile) const {
  return values_of(*impl_->engine, input, profile, &ShapeRange::min);
}
std::vector<int64_t> Engine::opt_values(std::string_view input, int profile) const {
  return values_of(*impl_->engine, input, profile, &ShapeRange::opt);
}
std::vector<int64_t> Engine::max_values(std::string_view input, int profile) const {
  return values_of(*impl_->engine, input, profile, &ShapeRange::max);
}
BuildInfo Engine::build_info() const {
  return translate_errors([&]() -> BuildInfo {
    const Plan& plan = *impl_->engine->plan();
    const PlanSection& section = impl_->engine->section();
    return {.lathe_version = plan.lathe_version,
            .device = section.target.description,
            .settings = section.settings,
            .timed = section.timed,
            .detailed_layer_information = plan.verbosity == ProfilingVerbosity::Detailed,
            .model = plan.model.name,
            .producer = plan.model.producer,
            .producer_version = plan.model.producer_version,
            .opset_version = plan.model.opset_version};
  });
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
bool Engine::uses_host_memory() const {
  return impl_->engine->backend()->is_host();
}
void Engine::save(const std::string& path) const {
  translate_errors([&] { impl_->engine->save(path); });
}
std::vector<std::byte> Engine::serialize() const {
  return translate_errors([&] { return impl_->engine->plan()->to_bytes(); });
}
void Engine::write(const std::function<void(std::span<const std::byte>)>& piece) const {
  struct Pieces final : FileWriter {
    explicit Pieces(const std::function<void(std::span<const std::byte>)>& piece) : piece(piece) {}
    void write(std::span<const std::byte> bytes) override { piece(bytes); }
    const std::function<void(std::span<const std::byte>)>& piece;
  } pieces(piece);
  translate_errors([&] { impl_->engine->plan()->write_to(pieces); });
}
void Engine::save_stripped(const std::string& path) const {
  translate_errors([&] { impl_->engine->plan()->stripped()->write(path); });
}
std::vector<std::byte> Engine::serialize_stripped() const {
  return translate_errors([&] { return impl_->engine->plan()->stripped()->to_bytes(); });
}

// --- Runtime

Runtime::Runtime(Logger& logger, const DeviceConfig& device) {
  translate_errors([&] {
    impl_ = std::unique_ptr<Impl>(
        new Impl{logger, open_backend(to_device_options(device)), device.plugins.impl()->registry});
  });
}
Runtime::~Runtime() = default;

Runtime::FileCheck Runtime::check(const std::string& path) const {
  return translate_errors([&]() -> FileCheck {
    try {
      const auto plan = Plan::read(path, impl_->plugins);
      if (plan->is_stripped) return {false, "it was stripped of its weights: a Refitter gives them back"};
      const Plan::Fit fit = plan->find_section(impl_->backend->target());
      return {fit.section >= 0, fit.section >= 0 ? "" : fit.reason};
    } catch (const lathe::Error& error) {
      if (error.kind() != lathe::ErrorKind::Input) throw;
      return {false, error.what()};
    }
  });
}
Engine Runtime::load(const std::string& path) {
  return translate_errors([&] { return impl_->load(Plan::read(path, impl_->plugins)); });
}
Engine Runtime::load(std::vector<std::byte> bytes) {
  return translate_errors(
      [&] { return impl_->load(Plan::from_bytes(std::move(bytes), "(memory)", impl_->plugins)); });
}
std::string Runtime::device_description() const {
  return impl_->backend->target().description;
}

std::vector<DataType> Runtime::fast_types() const {
  std::vector<DataType> types;
  for (const DType type : {DType::Float16, DType::BFloat16})
    if (impl_->backend->supports_compute_type(type).ok) types.push_back(to_data_type(type));
  return types;
}

std::vector<std::pair<std::string, std::string>> Runtime::device_properties() const {
  return impl_->backend->device_information();
}

}  // namespace lathe::v1
