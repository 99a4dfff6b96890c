// SPDX-License-Identifier: Apache-2.0
//
// Builder, its options and Runtime. Builds run without the GIL; logger and progress take it for each call.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <optional>
#include <span>

#include "module.h"

namespace lathe_python {
namespace {

// Lines go to a Python function of severity and text, or to logging. An exception inside of it is a line on
// stderr, as for any callback that cannot raise.
class PythonLogger final : public api::Logger {
 public:
  explicit PythonLogger(nb::object function) : function_(std::move(function)) {}
  void log(api::Severity severity, std::string_view text) override {
    constexpr int levels[] = {50, 40, 30, 20, 10};
    const nb::gil_scoped_acquire acquire;
    try {
      if (!function_.is_none())
        function_(static_cast<int>(severity), nb::str(text.data(), text.size()));
      else
        nb::module_::import_("logging").attr("getLogger")("lathe").attr("log")(
            levels[static_cast<int>(severity)], "%s", nb::str(text.data(), text.size()));
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("lathe's log");
    }
  }

 private:
  nb::object function_;
};

// Tells a Python function; its exception, or Ctrl-C, ends the build and goes on behind it.
class PythonProgress final : public api::ProgressMonitor {
 public:
  explicit PythonProgress(nb::object function) : function_(std::move(function)) {}
  bool on_progress(const api::Progress& p) override {
    const nb::gil_scoped_acquire acquire;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (function_.is_none()) return true;
      const nb::object answer = function_(p.stage.c_str(), p.done, p.total, p.remaining_seconds);
      return answer.ptr() != Py_False;
    } catch (...) {
      raised_ = std::current_exception();
      return false;
    }
  }
  void raise_again() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  nb::object function_;
  std::exception_ptr raised_;
};

struct PyBuilder {
  PyBuilder(const api::DeviceConfig& device, nb::object log)
      : logger(make_logger(std::move(log))), builder(*logger, device) {}
  std::unique_ptr<api::Logger> logger;
  api::Builder builder;
};
struct PyRuntime {
  PyRuntime(const api::DeviceConfig& device, nb::object log)
      : logger(make_logger(std::move(log))), runtime(*logger, device) {}
  std::unique_ptr<api::Logger> logger;
  api::Runtime runtime;
};

template <class Build>
PyEngine* build(const api::BuilderConfig& config, const nb::object& progress, const Build& call) {
  PythonProgress monitor(progress);
  api::BuilderConfig with = config;
  with.progress = &monitor;
  try {
    const nb::gil_scoped_release release;
    return new PyEngine(call(with));
  } catch (const api::Error& error) {
    if (error.kind() == api::ErrorKind::Cancelled) monitor.raise_again();
    throw;
  }
}

api::DeviceConfig device_config(const std::string& device, int threads, const std::string& cpu_isa,
                                const api::PluginRegistry* plugins, nb::handle allocator) {
  api::DeviceConfig config{.device = device, .threads = threads, .cpu_isa = cpu_isa};
  config.allocator = allocator_of(allocator);
  if (plugins) config.plugins = *plugins;
  return config;
}

nb::dict answer_of(const api::ModelSupport& support) {
  nb::list nodes;
  for (const auto& n : support.unsupported_nodes) {
    nb::dict node;
    node["name"] = n.name, node["op_type"] = n.op_type, node["reason"] = n.reason;
    nodes.append(node);
  }
  nb::dict answer;
  answer["supported"] = support.supported, answer["reason"] = support.reason;
  answer["unsupported_nodes"] = nodes;
  return answer;
}

// Contiguous memory of any array or buffer, and what keeps it alive.
api::WeightsInMemory weights_of(nb::handle object) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
  const void* const data = view->buf;
  const auto bytes = static_cast<size_t>(view->len);
  return {data, bytes, std::shared_ptr<const void>(view.release(), [](const void* p) {
            std::unique_ptr<Py_buffer> held(static_cast<Py_buffer*>(const_cast<void*>(p)));
            if (!nb::is_alive()) return;
            const nb::gil_scoped_acquire acquire;
            PyBuffer_Release(held.get());
          })};
}

void bind_config(nb::module_& m) {
  nb::class_<api::OptimizationProfile>(m, "OptimizationProfile",
                                       "The shapes that an engine accepts; it is tuned for opt.")
      .def(nb::init<>())
      .def("set_shape", &api::OptimizationProfile::set_dims, nb::arg("input"), nb::arg("min"), nb::arg("opt"),
           nb::arg("max"), nb::rv_policy::reference)
      .def("set_values", &api::OptimizationProfile::set_values, nb::arg("input"), nb::arg("min"),
           nb::arg("opt"), nb::arg("max"), nb::rv_policy::reference, "The elements of a shape tensor.");
  nb::class_<api::TimingCacheEntry>(m, "TimingCacheEntry",
                                    "What a timing cache knows of one tactic of one layer.")
      .def_ro("target", &api::TimingCacheEntry::target, "The device, as a number.")
      .def_ro("signature", &api::TimingCacheEntry::signature, "The layer, with types and formats.")
      .def_ro("tactic", &api::TimingCacheEntry::tactic)
      .def_ro("milliseconds", &api::TimingCacheEntry::milliseconds, "0: a time budget ended before.")
      .def_ro("about", &api::TimingCacheEntry::about, "Tactic, layer and types, for people.");
  nb::class_<api::TimingCache>(
      m, "TimingCache", "Measured times, kept between builds. Same model, same cache: same engine bytes.")
      .def(nb::init<>())
      .def("load", &api::TimingCache::load, nb::arg("path"),
           "Adds a file's entries. False when there is no file.")
      .def("save", &api::TimingCache::save, nb::arg("path"), "Merges into the file, under a lock.")
      .def("merge", &api::TimingCache::merge, nb::arg("other"))
      .def("to_text", &api::TimingCache::to_text, "The text of a file.")
      .def("merge_text", &api::TimingCache::merge_text, nb::arg("text"), "Adds the entries of a text.")
      .def("__len__", &api::TimingCache::size)
      .def("entries", &api::TimingCache::entries,
           "A TimingCacheEntry for each tactic of each layer, those that lost included.")
      .def("set_time", &api::TimingCache::set_time, nb::arg("entry"), nb::arg("milliseconds"),
           "Gives an entry another time: builds take the tactic with the least.");
  using Config = api::BuilderConfig;
  nb::class_<Config>(m, "BuilderConfig", "Everything a build depends on besides the model.")
      .def(nb::init<>())
      .def(
          "set_io",
          [](Config& c, const std::string& tensor, std::optional<std::string> dtype,
             const std::string& format) {
            api::IoType& type = c.io_types[tensor];
            type.format = format;
            if (dtype) type.type = type_from_name(*dtype, tensor);
          },
          nb::arg("tensor"), nb::arg("dtype") = nb::none(), nb::arg("format") = "chw",
          "What callers give as this input, or take as this output: another element type, and how its memory "
          "lies (\"chw\", "
          "\"hwc\", \"hwc8\", \"dhwc\" ...).")
      .def(
          "set_layer_precision",
          [](Config& c, const std::string& layer, std::optional<std::string> compute,
             const std::vector<std::string>& outputs) {
            api::LayerPrecision precision{.layer = layer};
            if (compute) precision.compute = type_from_name(*compute, layer);
            for (const std::string& type : outputs) precision.outputs.push_back(type_from_name(type, layer));
            c.layer_precisions.push_back(std::move(precision));
          },
          nb::arg("layer"), nb::arg("compute") = nb::none(), nb::arg("outputs") = std::vector<std::string>(),
          "What a layer computes in, and the types of its outputs (one for all, or one for each): float32, "
          "float16 or bfloat16. "
          "`layer` is the name of a node of the ONNX model; '*' in it stands for any text, and a whole name "
          "counts before a pattern.")
      .def_prop_rw(
          "obey_layer_precisions",
          [](const Config& c) { return c.precision_constraints == api::PrecisionConstraints::Obey; },
          [](Config& c, bool obey) {
            c.precision_constraints =
                obey ? api::PrecisionConstraints::Obey : api::PrecisionConstraints::Prefer;
          },
          "True (the default): a named layer without a tactic of its type ends the build with InputError. "
          "False: it gets another type.")
      .def_rw("plugin_libraries", &Config::plugin_libraries,
              "Paths of plugin libraries that the engine file carries; who loads it must trust it.")
      .def(
          "add_profile", [](Config& c, const api::OptimizationProfile& p) { c.profiles.push_back(p); },
          nb::arg("profile"))
      .def_rw("bf16", &Config::bf16,
              "Layers may compute in bfloat16; the faster engine of with and without is kept.")
      .def_rw("fp16", &Config::fp16, "Layers may compute in float16.")
      .def_rw("best", &Config::best, "Layers may compute in all types that the device has.")
      .def_rw("strongly_typed", &Config::strongly_typed, "Types come from the model alone.")
      .def_rw("optimization_level", &Config::optimization_level, "0 (nothing is timed) to 5.")
      .def_rw("max_tactics", &Config::max_tactics, "Timed per layer; -1: by level.")
      .def_rw("avg_timing", &Config::avg_timing, "Repetitions per tactic.")
      .def_rw("time_budget_seconds", &Config::time_budget_seconds, "For tuning; -1: by level.")
      .def_rw("winograd", &Config::winograd, "Faster, less exact tactics, within the error budget.")
      .def_rw("keep_nan", &Config::keep_nan)
      .def_rw("disabled_runners", &Config::disabled_runners)
      .def_rw("disabled_passes", &Config::disabled_passes, "Names of optimizer_passes() that are left out.")
      .def_rw("workspace_limit_bytes", &Config::workspace_limit_bytes,
              "Of one layer's scratch memory; -1: none.")
      .def_rw("timing_cache", &Config::timing_cache)
      .def_rw("error_on_timing_cache_miss", &Config::error_on_timing_cache_miss)
      .def_rw("detailed_layer_information", &Config::detailed_layer_information)
      .def_rw("fail_on_fallback", &Config::fail_on_fallback, "Raise when a layer has no kernel.")
      .def_rw("fast_load", &Config::fast_load,
              "Keep packed weights in the engine file, too: it is up to 2.5 times as large as the model, and "
              "nothing is packed at load.");
  m.def(
      "optimizer_passes",
      [] {
        nb::list rows;
        for (const api::OptimizerPass& pass : api::optimizer_passes()) {
          nb::dict row;
          row["name"] = pass.name, row["does"] = pass.does, row["is_optional"] = pass.is_optional;
          rows.append(row);
        }
        return rows;
      },
      "A dict for each rewrite of the graph that builds make: name, does (a sentence) and is_optional (taken "
      "where it is faster).");
}

// Of the engine itself, or of its file's path or bytes.
struct PyRefitter {
  PyRefitter(nb::handle engine, const api::DeviceConfig& device, nb::object log)
      : logger(make_logger(std::move(log))) {
    if (nb::isinstance<PyEngine>(engine)) {
      refitter.emplace(*logger, nb::cast<PyEngine&>(engine).engine());
    } else if (nb::isinstance<nb::bytes>(engine)) {
      const auto bytes = nb::cast<nb::bytes>(engine);
      const auto* data = reinterpret_cast<const std::byte*>(bytes.c_str());
      refitter.emplace(*logger, std::vector<std::byte>(data, data + bytes.size()), device);
    } else {
      refitter.emplace(*logger, nb::cast<std::string>(engine), device);
    }
  }
  ~PyRefitter() {
    const nb::gil_scoped_release release;  // the stream's thread may have something to log
    stream.reset();
  }
  PyRefitter(const PyRefitter&) = delete;
  PyRefitter& operator=(const PyRefitter&) = delete;
  void set(const std::string& name, nb::handle values) {
    api::TensorInfo info{.name = name};
    for (const api::WeightsInfo& w : refitter->weights())
      if (w.name == name) info.type = w.type, info.dims = w.dims;
    const Array array = to_array(values, info);
    api::HostTensor tensor(type_of(array.dtype(), name), dims_of(array));
    std::memcpy(tensor.bytes.data(), array.data(), tensor.bytes.size());
    refitter->set(name, tensor);
  }
  nb::list weights() const {
    nb::list result;
    for (const api::WeightsInfo& w : refitter->weights()) {
      const std::string_view type = api::data_type_name(w.type);
      nb::dict entry;
      entry["name"] = w.name, entry["dtype"] = nb::str(type.data(), type.size());
      entry["shape"] = nb::tuple(nb::cast(w.dims)), entry["missing"] = w.missing;
      result.append(entry);
    }
    return result;
  }
  std::unique_ptr<api::Logger> logger;
  std::optional<api::Refitter> refitter;
  std::optional<api::Stream> stream;  // of refit_async()
};

// An engine that a stream will have made.
struct PendingEngine {
  std::shared_future<api::Engine> future;
  bool done() const { return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  PyEngine* result() const { return new PyEngine(future.get()); }
};

void bind_refitter(nb::module_& m) {
  nb::class_<PendingEngine>(m, "PendingEngine", "An engine that is being made.")
      .def_prop_ro("done", &PendingEngine::done)
      .def("result", &PendingEngine::result, nb::rv_policy::take_ownership,
           nb::call_guard<nb::gil_scoped_release>(), "Waits for it. Raises what went wrong.");
  nb::class_<PyRefitter>(m, "Refitter",
                         "Gives an engine other weights: what was folded and packed is made anew, tactics "
                         "stay, nothing is timed.")
      .def(
          "__init__",
          [](PyRefitter* self, nb::object engine, const std::string& device, int threads, nb::object log,
             const api::PluginRegistry* plugins, nb::handle allocator) {
            new (self)
                PyRefitter(engine, device_config(device, threads, "", plugins, allocator), std::move(log));
          },
          nb::arg("engine"), nb::arg("device") = "cpu", nb::arg("threads") = 0, nb::arg("log") = nb::none(),
          nb::arg("plugins") = nb::none(), nb::arg("allocator") = nb::none(),
          "engine: an Engine, or the path or bytes of an engine file, a stripped one, too.")
      .def("set", &PyRefitter::set, nb::arg("name"), nb::arg("values"),
           "Copies. Raises InputError for an unknown name, another type or shape.")
      .def(
          "set_from_onnx", [](PyRefitter& r, const std::string& path) { r.refitter->set_from_onnx(path); },
          nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
          "All weights of a model with the same layers.")
      .def(
          "set_from_onnx_bytes",
          [](PyRefitter& r, const nb::bytes& model, const std::string& directory) {
            r.refitter->set_from_onnx(std::as_bytes(std::span(model.c_str(), model.size())), directory);
          },
          nb::arg("model"), nb::arg("directory") = "", "`directory`: where external weights lie.")
      .def(
          "refit", [](const PyRefitter& r) { return new PyEngine(r.refitter->refit()); },
          nb::rv_policy::take_ownership, nb::call_guard<nb::gil_scoped_release>(),
          "The engine with the new weights; the old one stays as it is. Raises InputError when weights are "
          "missing or lead to other layers.")
      .def(
          "refit_async",
          [](PyRefitter& r) {
            if (!r.stream) r.stream.emplace();
            return PendingEngine{r.refitter->refit(*r.stream)};
          },
          "The same on a thread of the refitter's own, in order, with the weights as they are now: they may "
          "be "
          "set anew at once. Returns a PendingEngine.")
      .def(
          "set_disabled_passes",
          [](PyRefitter& r, const std::vector<std::string>& names) {
            r.refitter->set_disabled_passes(names);
          },
          nb::arg("names"), "Those that the build left out.")
      .def_prop_ro(
          "weights", &PyRefitter::weights,
          "A dict for each: name, dtype, shape, and missing: whether the engine file was stripped of "
          "them and they are not set.");
}

}  // namespace

std::unique_ptr<api::Logger> make_logger(nb::object function) {
  return std::make_unique<PythonLogger>(std::move(function));
}

void bind_builder(nb::module_& m) {
  bind_config(m);
  nb::class_<PyBuilder>(m, "Builder", "Builds engines from ONNX models. Raises when the device is not there.")
      .def(
          "__init__",
          [](PyBuilder* self, const std::string& device, int threads, const std::string& isa, nb::object log,
             const api::PluginRegistry* plugins, nb::handle allocator) {
            new (self) PyBuilder(device_config(device, threads, isa, plugins, allocator), std::move(log));
          },
          nb::arg("device") = "cpu", nb::arg("threads") = 0, nb::arg("cpu_isa") = "",
          nb::arg("log") = nb::none(), nb::arg("plugins") = nb::none(), nb::arg("allocator") = nb::none(),
          "log(severity, text): gets the log instead of logging; severity 0 internal error, 1 error, 2 "
          "warning, 3 info, 4 verbose.\nallocator: where memory of the device comes from: a MemoryPool, or "
          "an "
          "object with allocate(bytes, alignment, stream) -> address and deallocate(address, stream), which "
          "any thread calls.")
      .def(
          "set_open_inputs",
          [](PyBuilder& b, const std::map<std::string, int64_t>& lengths,
             const std::map<std::string, std::vector<int64_t>>& shapes) {
            b.builder.set_open_inputs(lengths, shapes);
          },
          nb::arg("lengths"), nb::arg("shapes") = std::map<std::string, std::vector<int64_t>>(),
          "What models leave open of their inputs: how many tensors a sequence has, or an optional (0 or 1), "
          "and the shapes of inputs without a rank. The tensors of a sequence 'x' are the inputs x_0, x_1, "
          "...")
      .def(
          "parse_onnx", [](PyBuilder& b, const std::string& path) { return b.builder.parse_onnx(path); },
          nb::arg("path"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "check_onnx_bytes",
          [](PyBuilder& b, const nb::bytes& bytes, const std::string& directory) {
            return answer_of(
                b.builder.check_onnx(std::as_bytes(std::span(bytes.c_str(), bytes.size())), directory));
          },
          nb::arg("model"), nb::arg("directory") = "", "As check_onnx().")
      .def(
          "check_onnx",
          [](PyBuilder& b, const std::string& path) { return answer_of(b.builder.check_onnx(path)); },
          nb::arg("path"),
          "A dict: supported, reason, and unsupported_nodes, each with name, op_type and reason.")
      .def(
          "parse_onnx_bytes",
          [](PyBuilder& b, const nb::bytes& bytes, const std::string& directory, const nb::dict& weights) {
            std::map<std::string, api::WeightsInMemory> given;
            for (const auto& [name, object] : weights)
              given[nb::cast<std::string>(name)] = weights_of(object);
            return b.builder.parse_onnx(std::as_bytes(std::span(bytes.c_str(), bytes.size())), given,
                                        directory);
          },
          nb::arg("model"), nb::arg("directory") = "", nb::arg("weights") = nb::dict(),
          "`directory`: where external weights lie. `weights`: arrays or buffers by the names of "
          "initializers, "
          "instead of the model's; they are read in place and must not change.")
      .def(
          "build",
          [](PyBuilder& b, const api::Network& network, const api::BuilderConfig& config,
             const nb::object& progress) {
            return build(config, progress, [&](const auto& c) { return b.builder.build(network, c); });
          },
          nb::arg("network"), nb::arg("config") = api::BuilderConfig(), nb::arg("progress") = nb::none(),
          nb::rv_policy::take_ownership,
          "progress(stage, done, total, remaining_seconds) is told; False, an exception or Ctrl-C ends the "
          "build.")
      .def(
          "retune",
          [](PyBuilder& b, const std::string& path, const api::BuilderConfig& config,
             const nb::object& progress) {
            return build(config, progress, [&](const auto& c) { return b.builder.retune(path, c); });
          },
          nb::arg("path"), nb::arg("config") = api::BuilderConfig(), nb::arg("progress") = nb::none(),
          nb::rv_policy::take_ownership, "An engine for this device from the file of another, timed.")
      .def(
          "retarget",
          [](PyBuilder& b, const std::string& path) { return new PyEngine(b.builder.retarget(path)); },
          nb::arg("path"), nb::rv_policy::take_ownership, nb::call_guard<nb::gil_scoped_release>(),
          "The same in seconds, untimed.");
  bind_refitter(m);
  nb::class_<PyRuntime>(m, "Runtime", "Loads engines. Raises when the device is not there.")
      .def(
          "__init__",
          [](PyRuntime* self, const std::string& device, int threads, const std::string& isa, nb::object log,
             const api::PluginRegistry* plugins, nb::handle allocator) {
            new (self) PyRuntime(device_config(device, threads, isa, plugins, allocator), std::move(log));
          },
          nb::arg("device") = "cpu", nb::arg("threads") = 0, nb::arg("cpu_isa") = "",
          nb::arg("log") = nb::none(), nb::arg("plugins") = nb::none(), nb::arg("allocator") = nb::none(),
          "log(severity, text): gets the log instead of logging; severity 0 internal error, 1 error, 2 "
          "warning, 3 info, 4 verbose.\nallocator: where memory of the device comes from: a MemoryPool, or "
          "an "
          "object with allocate(bytes, alignment, stream) -> address and deallocate(address, stream), which "
          "any thread calls.")
      .def(
          "check",
          [](const PyRuntime& r, const std::string& path) {
            const auto answer = r.runtime.check(path);
            nb::dict told;
            told["loads"] = answer.loads, told["reason"] = answer.reason;
            return told;
          },
          nb::arg("path"),
          "Whether load() would take the file, from its head alone: a dict of loads and reason (why not).")
      .def(
          "load", [](PyRuntime& r, const std::string& path) { return new PyEngine(r.runtime.load(path)); },
          nb::arg("path"), nb::rv_policy::take_ownership, nb::call_guard<nb::gil_scoped_release>(),
          "Raises InputError when the file is damaged or was made for another device only (Builder.retarget "
          "helps).")
      .def(
          "load_bytes",
          [](PyRuntime& r, const nb::bytes& bytes) {
            const auto* data = reinterpret_cast<const std::byte*>(bytes.c_str());
            std::vector<std::byte> copy(data, data + bytes.size());
            const nb::gil_scoped_release release;
            return new PyEngine(r.runtime.load(std::move(copy)));
          },
          nb::arg("engine"), nb::rv_policy::take_ownership)
      .def_prop_ro("device_description", [](const PyRuntime& r) { return r.runtime.device_description(); })
      .def_prop_ro(
          "fast_types",
          [](const PyRuntime& r) {
            std::vector<std::string> names;
            for (const api::DataType type : r.runtime.fast_types())
              names.emplace_back(api::data_type_name(type));
            return names;
          },
          "Float types besides float32 that layers compute in on this device: \"float16\", \"bfloat16\".")
      .def_prop_ro(
          "device_properties", [](const PyRuntime& r) { return r.runtime.device_properties(); },
          "Pairs of a property's name and its value with unit.");
}

}  // namespace lathe_python
