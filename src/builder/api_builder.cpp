// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/json.h"
#include "builder/builder.h"
#include "builder/io_formats.h"
#include "builder/network_state.h"
#include "lathe/builder.h"
#include "onnx/import.h"
#include "passes/catalogue.h"
#include "runtime/api_bridge.h"
#include "tune/timer.h"
#include "tune/timing_cache_lines.h"

namespace lathe::v1 {

struct TimingCache::Impl {
  std::shared_ptr<lathe::TimingCache> cache = std::make_shared<lathe::TimingCache>();
};

namespace {

// The events that a person follows, as lines; trtexec's full log is the command line's.
class LogObserver final : public Observer {
 public:
  explicit LogObserver(Logger& logger) : logger_(logger) {}
  void on(const Event& event) override { std::visit(*this, event); }
  void follow(ProgressMonitor* monitor, std::stop_source* stop) { monitor_ = monitor, stop_ = stop; }

  template <class Other>
  void operator()(const Other&) {}
  void operator()(const Message& e) { logger_.log(static_cast<Severity>(e.severity), e.text); }
  void operator()(const TacticTimed& e) {
    verbose(e.layer + ": " + e.tactic + " takes " + std::to_string(e.time_ms) + " ms");
  }
  void operator()(const FusionApplied& e) { verbose(e.fusion + ": " + e.first + " + " + e.second); }
  void operator()(const ReformatAdded& e) { verbose("Reformat " + e.layer + ": " + e.from + " -> " + e.to); }
  void operator()(const lathe::Progress& e) {
    if (monitor_ && !monitor_->on_progress({e.stage, e.done, e.total, e.remaining_seconds}))
      stop_->request_stop();
  }
  void operator()(const EngineGenerated& e) {
    logger_.log(Severity::Info, "Engine generation completed in " + std::to_string(e.seconds) + " seconds.");
  }

 private:
  void verbose(const std::string& text) { logger_.log(Severity::Verbose, text); }
  Logger& logger_;
  ProgressMonitor* monitor_ = nullptr;
  std::stop_source* stop_ = nullptr;
};

lathe::OptimizationProfile to_profile(const OptimizationProfile& profile) {
  lathe::OptimizationProfile result;
  for (const auto& r : profile.ranges())
    (r.values ? result.values : result.shapes)[r.input] = {.min = r.min, .opt = r.opt, .max = r.max};
  return result;
}

BuildOptions to_options(const BuilderConfig& config) {
  BuildOptions options{.bf16 = config.bf16,
                       .fp16 = config.fp16,
                       .best = config.best,
                       .strongly_typed = config.strongly_typed,
                       .winograd = config.winograd,
                       .optimization_level = config.optimization_level,
                       .max_tactics = config.max_tactics,
                       .avg_timing = config.avg_timing,
                       .time_budget_seconds = config.time_budget_seconds};
  for (const OptimizationProfile& p : config.profiles) options.profiles.push_back(to_profile(p));
  for (const LayerPrecision& p : config.layer_precisions) {
    lathe::LayerPrecision& to = options.layer_precisions.emplace_back();
    to.layer = p.layer;
    if (p.compute) to.compute = to_dtype(*p.compute);
    for (const DataType type : p.outputs) to.outputs.push_back(to_dtype(type));
  }
  options.precision_constraints =
      static_cast<lathe::PrecisionConstraints>(static_cast<int>(config.precision_constraints));
  options.disabled_runners.insert(config.disabled_runners.begin(), config.disabled_runners.end());
  options.passes.disabled.insert(config.disabled_passes.begin(), config.disabled_passes.end());
  options.workspace_limit_bytes = config.workspace_limit_bytes;
  options.timing_cache = config.timing_cache.impl()->cache;
  options.error_on_timing_cache_miss = config.error_on_timing_cache_miss;
  options.keep_nan = config.keep_nan;
  options.fail_on_fallback = config.fail_on_fallback;
  options.fast_load = config.fast_load;
  for (const std::string& library : config.plugin_libraries) options.plugin_libraries.emplace_back(library);
  options.verbosity =
      config.detailed_layer_information ? ProfilingVerbosity::Detailed : ProfilingVerbosity::LayerNamesOnly;
  return options;
}

lathe::Network with_io_types(const lathe::Network& network, const std::map<std::string, IoType>& types) {
  lathe::Network result = network;
  std::map<std::string, lathe::IoType, std::less<>> wanted;
  const auto infos = network.inputs(), outputs = network.outputs();
  for (const auto& [name, type] : types) {
    lathe::IoType& to = wanted[name];
    if (type.type) to.dtype = to_dtype(*type.type);
    for (const auto* tensors : {&infos, &outputs})
      for (const lathe::TensorInfo& t : *tensors)
        if (t.name == name) to.format = io_format(type.format, t.shape);
  }
  set_io_types(result, wanted);
  return result;
}

Engine to_public(std::shared_ptr<const lathe::Engine> engine) {
  return Engine(std::make_shared<Engine::Impl>(Engine::Impl{std::move(engine)}));
}

}  // namespace

struct Builder::Impl {
  explicit Impl(Logger& logger, const DeviceConfig& device)
      : observer(logger),
        builder(open_backend(to_device_options(device)), observer),
        plugins(device.plugins.impl()->registry) {
    builder.use_plugins(plugins);
  }
  // One build, which the caller may follow and stop.
  Engine build(const BuilderConfig& config,
               const std::function<std::shared_ptr<const lathe::Engine>(const BuildOptions&)>& build) {
    std::stop_source stop;
    const std::stop_callback forward(config.stop, [&] { stop.request_stop(); });
    BuildOptions options = to_options(config);
    options.stop = stop.get_token();
    observer.follow(config.progress, &stop);
    const auto forget = [this](void*) { observer.follow(nullptr, nullptr); };
    const std::unique_ptr<void, decltype(forget)> at_end(this, forget);
    stop_if_asked(options.stop);
    return to_public(build(options));
  }
  // What an import says of a model.
  ModelSupport check(const std::function<void(const ImportOptions&)>& import) {
    return translate_errors([&]() -> ModelSupport {
      std::vector<UnsupportedNode> unsupported;
      ModelSupport support;
      try {
        import({.unsupported = &unsupported, .plugins = plugins.get()});
        support.supported = true;
      } catch (const lathe::Error& error) {
        if (error.kind() != lathe::ErrorKind::Input) throw;
        support.reason = error.what();
      }
      for (UnsupportedNode& n : unsupported)
        support.unsupported_nodes.push_back({std::move(n.node), std::move(n.op_type), std::move(n.reason)});
      return support;
    });
  }
  LogObserver observer;
  lathe::Builder builder;
  std::shared_ptr<plugin::Registry> plugins;
};

// --- OptimizationProfile

OptimizationProfile& OptimizationProfile::set_dims(std::string input, Dims min, Dims opt, Dims max) {
  ranges_.push_back({std::move(input), false, std::move(min), std::move(opt), std::move(max)});
  return *this;
}
OptimizationProfile& OptimizationProfile::set_values(std::string input, std::vector<int64_t> min,
                                                     std::vector<int64_t> opt, std::vector<int64_t> max) {
  ranges_.push_back({std::move(input), true, std::move(min), std::move(opt), std::move(max)});
  return *this;
}

// --- TimingCache

TimingCache::TimingCache() : impl_(std::make_shared<Impl>()) {}
bool TimingCache::load(const std::string& path) {
  return translate_errors([&] { return impl_->cache->load(path); });
}
void TimingCache::save(const std::string& path) const {
  translate_errors([&] { impl_->cache->save(path); });
}
void TimingCache::merge(const TimingCache& other) {
  impl_->cache->merge(*other.impl_->cache);
}
std::string TimingCache::to_text() const {
  return impl_->cache->to_text();
}
void TimingCache::merge_text(std::string_view text) {
  impl_->cache->merge_text(text);
}
size_t TimingCache::size() const {
  return impl_->cache->size();
}
std::vector<TimingCacheEntry> TimingCache::entries() const {
  std::vector<TimingCacheEntry> all;
  for (const TimingCacheLine& line : timing_cache_lines(*impl_->cache))
    all.push_back({.target = line.key.target,
                   .signature = line.key.signature,
                   .tactic = line.key.tactic,
                   .milliseconds = line.milliseconds,
                   .about = line.comment});
  return all;
}
void TimingCache::set_time(const TimingCacheEntry& entry, double milliseconds) {
  if (!std::isfinite(milliseconds) || milliseconds <= 0)
    throw Error(ErrorKind::Input, ErrorFields{.what = "no layer takes such a time",
                                              .where = "an entry of a timing cache",
                                              .why = "it is " + std::to_string(milliseconds) + " ms",
                                              .hint = "give a number above 0"});
  auto changed = with_time(*impl_->cache, {entry.target, entry.signature, entry.tactic}, milliseconds);
  if (!changed)
    throw Error(ErrorKind::Input, ErrorFields{.what = "the timing cache has no such entry",
                                              .where = entry.about,
                                              .hint = "take one of entries()"});
  *impl_->cache = std::move(*changed);
}

// --- OptimizerPass

std::vector<OptimizerPass> optimizer_passes() {
  return translate_errors([] {
    std::vector<OptimizerPass> all;
    for (const PassInfo& pass : pass_catalogue())
      all.push_back({std::string(pass.name), std::string(pass.does), pass.is_optional});
    return all;
  });
}

// --- ModelSupport

std::string ModelSupport::to_json() const {
  Json nodes = Json::array();
  for (const Node& n : unsupported_nodes)
    nodes.push_back({{"name", n.name}, {"op_type", n.op_type}, {"reason", n.reason}});
  return dump_json({{"supported", supported}, {"reason", reason}, {"unsupported_nodes", nodes}});
}

// --- Builder

Builder::Builder(Logger& logger, const DeviceConfig& device) {
  translate_errors([&] { impl_ = std::make_unique<Impl>(logger, device); });
}
Builder::~Builder() = default;

void Builder::set_open_inputs(const std::map<std::string, int64_t>& lengths,
                              const std::map<std::string, std::vector<int64_t>>& shapes) {
  impl_->builder.set_open_inputs({lengths.begin(), lengths.end()}, {shapes.begin(), shapes.end()});
}
Network Builder::parse_onnx(const std::string& path) {
  return translate_errors([&] {
    return Network(std::make_shared<Network::Impl>(Network::Impl{impl_->builder.parse_onnx(path)}));
  });
}
Network Builder::parse_onnx(std::span<const std::byte> model, const std::string& directory) {
  return translate_errors([&] {
    return Network(
        std::make_shared<Network::Impl>(Network::Impl{impl_->builder.parse_onnx(model, directory)}));
  });
}
Network Builder::parse_onnx(std::span<const std::byte> model,
                            const std::map<std::string, WeightsInMemory>& weights,
                            const std::string& directory) {
  return translate_errors([&] {
    std::map<std::string, GivenWeights> given;
    for (const auto& [name, w] : weights) {
      std::shared_ptr<const void> owner = w.keep_alive;
      if (!owner) owner = std::shared_ptr<const void>(w.data, [](const void*) {});
      given[name] = {{static_cast<const std::byte*>(w.data), w.bytes}, std::move(owner)};
    }
    return Network(
        std::make_shared<Network::Impl>(Network::Impl{impl_->builder.parse_onnx(model, directory, given)}));
  });
}
ModelSupport Builder::check_onnx(const std::string& path) {
  return impl_->check([&](const ImportOptions& options) { import_onnx(path, impl_->observer, options); });
}
ModelSupport Builder::check_onnx(std::span<const std::byte> model, const std::string& directory) {
  return impl_->check([&](const ImportOptions& options) {
    import_onnx(model, directory, impl_->observer, nullptr, options);
  });
}
Engine Builder::build(const Network& network, const BuilderConfig& config) {
  return translate_errors([&] {
    return impl_->build(config, [&](const BuildOptions& options) {
      return impl_->builder.build(with_io_types(network.impl().network, config.io_types), options);
    });
  });
}
Engine Builder::retarget(const std::string& path) {
  return translate_errors(
      [&] { return to_public(impl_->builder.retarget(*Plan::read(path, impl_->plugins))); });
}
Engine Builder::retune(const std::string& path, const BuilderConfig& config) {
  return translate_errors([&] {
    return impl_->build(config, [&](const BuildOptions& options) {
      return impl_->builder.retune(*Plan::read(path, impl_->plugins), options);
    });
  });
}

}  // namespace lathe::v1
