// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <mutex>

#include "builder/builder.h"
#include "builder/refit.h"
#include "lathe/builder.h"
#include "runtime/api_bridge.h"
#include "runtime/api_stream.h"

namespace lathe::v1 {
namespace {

class MessageObserver final : public Observer {
 public:
  explicit MessageObserver(Logger& logger) : logger_(logger) {}
  void on(const Event& event) override {
    if (const auto* m = std::get_if<Message>(&event))
      logger_.log(static_cast<Severity>(m->severity), m->text);
  }

 private:
  Logger& logger_;
};

Tensor copy_of(const HostTensor& values) {
  Tensor tensor = Tensor::allocate(to_dtype(values.type), values.dims);
  if (tensor.bytes().size() != values.bytes.size())
    throw_input_error(std::to_string(values.bytes.size()) + " bytes are no tensor of " +
                      std::string(data_type_name(values.type)) + " " + to_string(values.dims));
  std::memcpy(tensor.mutable_bytes().data(), values.bytes.data(), values.bytes.size());
  return tensor;
}

}  // namespace

struct Refitter::Impl {
  Impl(Logger& logger, std::shared_ptr<const Plan> plan, std::shared_ptr<const Backend> backend,
       std::shared_ptr<const PluginSource> plugins = nullptr)
      : observer(logger),
        builder(std::move(backend), observer),
        plan(std::move(plan)),
        portable(this->plan->portable_graph()) {
    builder.use_plugins(std::move(plugins));
  }
  Engine refit(const Graph& unchanged, const NamedWeights& values, const PassOptions& left_out) {
    return translate_errors([&] {
      auto graph = std::make_shared<Graph>(with_weights(unchanged, values));
      const std::lock_guard lock(mutex);
      return Engine(
          std::make_shared<Engine::Impl>(Engine::Impl{builder.refit(*plan, std::move(graph), left_out)}));
    });
  }
  MessageObserver observer;
  std::mutex mutex;  // of the builder
  lathe::Builder builder;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Graph> portable;
  NamedWeights weights;  // instead of portable's
  PassOptions passes;
};

Refitter::Refitter(Logger& logger, const Engine& engine) {
  translate_errors([&] {
    const auto& from = engine.impl().engine;
    impl_ = std::make_shared<Impl>(logger, from->plan(), from->backend());
  });
}
Refitter::Refitter(Logger& logger, const std::string& path, const DeviceConfig& device) {
  translate_errors([&] {
    const auto& plugins = device.plugins.impl()->registry;
    impl_ = std::make_shared<Impl>(logger, Plan::read(path, plugins), open_backend(to_device_options(device)),
                                   plugins);
  });
}
Refitter::Refitter(Logger& logger, std::vector<std::byte> engine, const DeviceConfig& device) {
  translate_errors([&] {
    const auto& plugins = device.plugins.impl()->registry;
    impl_ = std::make_shared<Impl>(logger, Plan::from_bytes(std::move(engine), "(memory)", plugins),
                                   open_backend(to_device_options(device)), plugins);
  });
}
Refitter::~Refitter() = default;

std::vector<WeightsInfo> Refitter::weights() const {
  return translate_errors([&] {
    std::vector<WeightsInfo> result;
    for (const RefittableWeights& w : refittable_weights(*impl_->portable))
      result.push_back(
          {w.name, to_data_type(w.dtype), w.extents, w.missing && !impl_->weights.contains(w.name)});
    return result;
  });
}

void Refitter::set(std::string_view name, const HostTensor& values) {
  translate_errors([&] {
    NamedWeights one{{std::string(name), copy_of(values)}};
    check_weights(*impl_->portable, one);
    impl_->weights.insert_or_assign(std::string(name), one.begin()->second);
  });
}

void Refitter::set_from_onnx(const std::string& path) {
  translate_errors([&] { impl_->portable = impl_->builder.parse_onnx(path).graph, impl_->weights.clear(); });
}
void Refitter::set_from_onnx(std::span<const std::byte> model, const std::string& directory) {
  translate_errors(
      [&] { impl_->portable = impl_->builder.parse_onnx(model, directory).graph, impl_->weights.clear(); });
}

Engine Refitter::refit() const {
  return impl_->refit(*impl_->portable, impl_->weights, impl_->passes);
}

void Refitter::set_disabled_passes(const std::vector<std::string>& names) {
  impl_->passes.disabled = {names.begin(), names.end()};
}

std::shared_future<Engine> Refitter::refit(Stream& stream) const {
  auto promise = std::make_shared<std::promise<Engine>>();
  std::shared_future<Engine> future = promise->get_future().share();
  stream.impl_->push(
      [promise, impl = impl_, portable = impl_->portable, weights = impl_->weights, passes = impl_->passes] {
        try {
          promise->set_value(impl->refit(*portable, weights, passes));
        } catch (...) {
          promise->set_exception(std::current_exception());
          throw;
        }
      });
  return future;
}

}  // namespace lathe::v1
