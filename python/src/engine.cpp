// SPDX-License-Identifier: Apache-2.0
//
// Engines, and what `engine(x)` does: bind the arrays in place, run without the GIL, wrap the results.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

#include "lathe/inspector.h"
#include "module.h"

namespace lathe_python {
namespace {

constexpr size_t kAlignment = 64;

// The memory of one result of one call, until a numpy array owns it.
class Result final : public api::OutputAllocator {
 public:
  ~Result() override { std::free(memory_); }
  void* allocate(std::string_view, size_t bytes, const api::Dims& dims) override {
    std::free(std::exchange(memory_, nullptr));
    dims_ = dims;
    memory_ = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    return memory_;
  }
  nb::object take(const api::TensorInfo& info) {
    void* memory = std::exchange(memory_, nullptr);
    const nb::capsule owner(memory, [](void* p) noexcept { std::free(p); });
    const api::Dims dims = memory_dims(info, dims_);
    const std::vector<size_t> shape(dims.begin(), dims.end());
    return nb::cast(nb::ndarray<nb::numpy>(memory, shape.size(), shape.data(), owner, nullptr,
                                           dlpack_type(info.type, info.name)));
  }

 private:
  void* memory_ = nullptr;
  api::Dims dims_;
};

[[noreturn]] void refuse(const std::string& what, const std::string& where, const std::string& hint = {}) {
  throw api::Error(api::ErrorKind::Input, {.what = what, .where = where, .hint = hint});
}

std::string names_of(const std::vector<api::TensorInfo>& infos) {
  std::string names;
  for (const api::TensorInfo& t : infos) names += (names.empty() ? "" : ", ") + t.name;
  return names;
}

}  // namespace

struct PyEngine::Caller {
  Caller(api::ExecutionContext made, size_t outputs) : context(std::move(made)), results(outputs) {}
  api::ExecutionContext context;
  std::vector<Result> results;
};

PyEngine::PyEngine(api::Engine engine)
    : engine_(std::move(engine)),
      inputs_(engine_.inputs()),
      outputs_(engine_.outputs()),
      uses_host_memory_(engine_.uses_host_memory()) {}

std::unique_ptr<PyEngine::Caller> PyEngine::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Caller>(engine_.create_context(), outputs_.size());
  auto caller = std::move(idle_.back());
  idle_.pop_back();
  return caller;
}
void PyEngine::give_back(std::unique_ptr<Caller> caller) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(caller));
}

namespace {

// A list for the tensors of a sequence: input x_0, x_1, ... Returns whether there are such inputs.
bool arrange_list(const std::vector<api::TensorInfo>& inputs, const std::string& name, nb::handle list,
                  std::vector<nb::handle>& arranged) {
  size_t count = 0;
  for (bool found = true; found;) {
    found = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].name != name + "_" + std::to_string(count)) continue;
      found = true, ++count;
      if (count <= nb::len(list)) arranged[i] = list[count - 1];
      break;
    }
  }
  if (count != 0 && count != nb::len(list))
    refuse("a list of " + std::to_string(nb::len(list)) + " arrays", "input '" + name + "'",
           "the engine was built for a sequence of " + std::to_string(count));
  return count != 0;
}

// The arguments of a call in the engine's order.
std::vector<nb::handle> arrange(const std::vector<api::TensorInfo>& inputs, const nb::args& args,
                                const nb::kwargs& kwargs) {
  const std::string expected = "its inputs are " + names_of(inputs);
  if (args.size() > inputs.size())
    refuse("a call with " + std::to_string(args.size()) + " arrays", "the engine", expected);
  std::vector<nb::handle> arranged(inputs.size());
  for (size_t i = 0; i < args.size(); ++i) arranged[i] = args[i];
  for (const auto& [key, value] : kwargs) {
    const std::string name = nb::cast<std::string>(key);
    size_t i = 0;
    while (i < inputs.size() && inputs[i].name != name) ++i;
    if (i == inputs.size()) {
      if (name == "out") continue;
      const bool is_list = nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value);
      if (is_list && arrange_list(inputs, name, value, arranged)) continue;
      refuse("the engine has no such input", "input '" + name + "'", expected);
    }
    if (arranged[i].is_valid()) refuse("it was given twice", "input '" + name + "'");
    arranged[i] = value;
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!arranged[i].is_valid()) refuse("it was not given", "input '" + inputs[i].name + "'", expected);
  return arranged;
}

// Memory that the caller gave for outputs, by name.
nb::dict given_outputs(const nb::kwargs& kwargs, const std::vector<api::TensorInfo>& outputs) {
  if (!kwargs.contains("out")) return {};
  const nb::object out = kwargs["out"];
  nb::dict given;
  if (nb::isinstance<nb::dict>(out))
    given = nb::cast<nb::dict>(out);
  else if (outputs.size() == 1)
    given[outputs[0].name.c_str()] = out;
  else
    refuse("several outputs need a dict of arrays by name", "out", "its outputs are " + names_of(outputs));
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    bool known = false;
    for (const api::TensorInfo& t : outputs) known |= t.name == name;
    if (!known)
      refuse("the engine has no such output", "out['" + name + "']", "its outputs are " + names_of(outputs));
  }
  return given;
}

MutableArray writable(nb::handle object, const std::string& output) {
  MutableArray array;
  if (!nb::try_cast(object, array, false) || array.device_type() != nb::device::cpu::value)
    refuse("it is no writable, contiguous array in host memory", "out['" + output + "']");
  return array;
}

}  // namespace

nb::object PyEngine::call_on_gpu(const nb::args& args, const nb::kwargs& kwargs, nb::handle profiler) {
  const nb::dict given = given_outputs(kwargs, outputs_);
  nb::list inputs;
  const std::vector<nb::handle> arranged = arrange(inputs_, args, kwargs);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].is_string)
      inputs.append(nb::module_::import_("lathe._strings").attr("encode")(arranged[i], inputs_[i].name));
    else
      inputs.append(arranged[i]);
  }
  if (!gpu_calls_.is_valid())
    gpu_calls_ = nb::module_::import_("lathe._gpu").attr("Calls")(inputs_, outputs_);
  return gpu_calls_(nb::find(*this), inputs, given, profiler);
}

nb::object PyEngine::call(const nb::args& args, const nb::kwargs& kwargs, api::Profiler* profiler) {
  const std::vector<nb::handle> arranged = arrange(inputs_, args, kwargs);
  const nb::dict given = given_outputs(kwargs, outputs_);
  std::unique_ptr<Caller> caller = take();
  std::vector<Array> arrays;  // alive while the engine reads them
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Array& array = arrays.emplace_back(to_array(arranged[i], inputs_[i]));
    caller->context.bind_input(inputs_[i].name, type_of(array.dtype(), inputs_[i].name),
                               logical_dims(inputs_[i], dims_of(array)), array.data());
  }
  std::vector<MutableArray> targets;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::string& name = outputs_[i].name;
    if (given.size() > 0 && given.contains(name.c_str())) {
      const MutableArray& target = targets.emplace_back(writable(given[name.c_str()], name));
      caller->context.bind_output(name, type_of(target.dtype(), name), target.data(), target.nbytes());
    } else {
      caller->context.bind_output(name, caller->results[i]);
    }
  }
  {
    const nb::gil_scoped_release release;
    if (profiler != nullptr)
      caller->context.execute(*profiler);
    else
      caller->context.execute();
  }
  const auto result = [&](size_t i) -> nb::object {
    const char* name = outputs_[i].name.c_str();
    if (given.size() > 0 && given.contains(name)) return nb::object(given[name]);
    const nb::object taken = caller->results[i].take(outputs_[i]);
    if (!outputs_[i].is_string) return taken;
    return nb::module_::import_("lathe._strings").attr("decode")(taken);
  };
  nb::object value;
  if (outputs_.size() == 1) {
    value = result(0);
  } else {
    nb::dict all;
    for (size_t i = 0; i < outputs_.size(); ++i) all[outputs_[i].name.c_str()] = result(i);
    value = all;
  }
  give_back(std::move(caller));
  return value;
}

void bind_engine(nb::module_& m) {
  nb::class_<api::Profiler>(m, "Profiler", "Collects layer times of profiled runs, in milliseconds.")
      .def(nb::init<>())
      .def_prop_ro("runs", &api::Profiler::runs)
      .def_prop_ro(
          "layers",
          [](const api::Profiler& p) {
            nb::list rows;
            for (const auto& layer : p.layers()) {
              nb::dict row;
              row["name"] = layer.name, row["total_ms"] = layer.total_ms;
              row["average_ms"] = layer.average_ms, row["median_ms"] = layer.median_ms;
              rows.append(row);
            }
            return rows;
          },
          "A dict for each layer, in order of execution: name, total_ms, average_ms, median_ms.");

  nb::class_<PyEngine>(m, "Engine", "What runs a network. Immutable; threads may call it at the same time.")
      .def(
          "__call__",
          [](PyEngine& e, const nb::args& args, const nb::kwargs& kwargs) {
            if (!e.uses_host_memory()) return e.call_on_gpu(args, kwargs, nb::none());
            return e.call(args, kwargs, nullptr);
          },
          "Runs once.\n\nArrays (numpy, DLPack, __array_interface__) by position or by input name, of the "
          "input's type and of a shape\n"
          "inside of the optimization profile. Contiguous memory of the engine's device is read in place: of "
          "the host, or of a GPU\n(torch, CuPy, __cuda_array_interface__), where the run is put on the "
          "library's current stream. `out`: an array, or "
          "a dict of\n"
          "arrays by output name, to write into. Returns a numpy array, or a dict by name where there are "
          "several outputs.\n"
          "The GIL is released. Raises InputError for what does not fit.")
      .def(
          "call_profiled",
          [](PyEngine& e, api::Profiler& profiler, const nb::args& args, const nb::kwargs& kwargs) {
            if (!e.uses_host_memory()) return e.call_on_gpu(args, kwargs, nb::find(profiler));
            return e.call(args, kwargs, &profiler);
          },
          "As a call, and adds each layer's time to the profiler.")
      .def(
          "profile",
          [](nb::object self, const nb::args& args, const nb::kwargs& kwargs) {
            return nb::module_::import_("lathe._profile").attr("profile")(self, *args, **kwargs);
          },
          "profile(*inputs, runs=10, **inputs): a lathe.Profile with the time of each layer in milliseconds.")
      .def(
          "run_async",
          [](nb::object self, const nb::args& args, const nb::kwargs& kwargs) {
            return nb::module_::import_("lathe._asyncio").attr("run")(self, *args, **kwargs);
          },
          "As a call, awaitable: runs in the event loop's default executor.")
      .def_prop_ro("uses_host_memory", &PyEngine::uses_host_memory,
                   "Whether arrays lie in memory of the host or of a GPU.")
      .def_prop_ro("inputs", [](const PyEngine& e) { return e.engine().inputs(); })
      .def_prop_ro("outputs", [](const PyEngine& e) { return e.engine().outputs(); })
      .def_prop_ro("profile_count", [](const PyEngine& e) { return e.engine().profile_count(); })
      .def(
          "shape_range",
          [](const PyEngine& e, const std::string& input, int profile) {
            const auto& engine = e.engine();
            const auto tuple = [](const api::Dims& dims) { return nb::tuple(nb::cast(dims)); };
            return nb::make_tuple(tuple(engine.min_dims(input, profile)),
                                  tuple(engine.opt_dims(input, profile)),
                                  tuple(engine.max_dims(input, profile)));
          },
          nb::arg("input"), nb::arg("profile") = 0,
          "The smallest, tuned-for and largest extents of an input.")
      .def(
          "value_range",
          [](const PyEngine& e, const std::string& input, int profile) {
            const auto& engine = e.engine();
            return nb::make_tuple(engine.min_values(input, profile), engine.opt_values(input, profile),
                                  engine.max_values(input, profile));
          },
          nb::arg("input"), nb::arg("profile") = 0,
          "The smallest, tuned-for and largest elements of a shape tensor.")
      .def_prop_ro(
          "build_info",
          [](const PyEngine& e) {
            const api::BuildInfo info = e.engine().build_info();
            nb::dict told;
            told["lathe_version"] = info.lathe_version, told["device"] = info.device;
            told["settings"] = info.settings, told["timed"] = info.timed;
            told["detailed_layer_information"] = info.detailed_layer_information;
            told["model"] = info.model;
            told["producer"] = info.producer, told["producer_version"] = info.producer_version;
            told["opset_version"] = info.opset_version;
            return told;
          },
          "How the engine was built: a dict of lathe_version, device, settings (\"level 3, fp32\", then what "
          "was "
          "not as it is by default), timed, detailed_layer_information, and model, producer, "
          "producer_version "
          "and opset_version of the model.")
      .def(
          "layer_names", [](const PyEngine& e, int profile) { return e.engine().layer_names(profile); },
          nb::arg("profile") = 0)
      .def(
          "weight_bytes", [](const PyEngine& e, int profile) { return e.engine().weight_bytes(profile); },
          nb::arg("profile") = 0, "Bytes of weights, shared by all calls.")
      .def(
          "activation_bytes",
          [](const PyEngine& e, int profile) { return e.engine().activation_bytes(profile); },
          nb::arg("profile") = 0, "Bytes of scratch memory of each call in flight.")
      .def(
          "layers",
          [](const PyEngine& e) {
            nb::list rows;
            for (const api::LayerDescription& layer : api::EngineInspector(e.engine()).layers()) {
              nb::dict row;
              row["name"] = layer.name, row["type"] = layer.type, row["tactic"] = layer.tactic;
              row["tactic_ms"] = layer.tactic_ms, row["onnx_nodes"] = layer.onnx_nodes;
              row["inputs"] = layer.inputs, row["outputs"] = layer.outputs, row["fallback"] = layer.fallback;
              rows.append(row);
            }
            return rows;
          },
          "A dict for each layer: name, type, tactic, tactic_ms (0: untimed), onnx_nodes, inputs, outputs, "
          "fallback "
          "(why the slow reference runs it; empty: a kernel does).")
      .def(
          "layer_json", [](const PyEngine& e) { return api::EngineInspector(e.engine()).json(); },
          "All that is known of the layers, in the layout of trtexec's --exportLayerInfo.")
      .def(
          "save", [](const PyEngine& e, const std::string& path) { e.engine().save(path); }, nb::arg("path"),
          nb::call_guard<nb::gil_scoped_release>(),
          "Writes the engine file; an old one stays as it was when that fails.")
      .def(
          "serialize",
          [](const PyEngine& e) {
            const auto bytes = e.engine().serialize();
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The engine file's bytes.")
      .def(
          "write",
          [](const PyEngine& e, nb::callable piece) {
            e.engine().write(
                [&](std::span<const std::byte> bytes) { piece(nb::bytes(bytes.data(), bytes.size())); });
          },
          nb::arg("piece"),
          "piece(bytes) gets the engine file's bytes in order, so that no copy of the whole is made.")
      .def(
          "save_stripped", [](const PyEngine& e, const std::string& path) { e.engine().save_stripped(path); },
          nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
          "The file without weights: refit() makes an engine of it again.")
      .def(
          "serialize_stripped",
          [](const PyEngine& e) {
            const auto bytes = e.engine().serialize_stripped();
            return nb::bytes(bytes.data(), bytes.size());
          },
          "The bytes of the file without weights.");
}

}  // namespace lathe_python
