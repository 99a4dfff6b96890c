// SPDX-License-Identifier: Apache-2.0
//
// ExecutionContext as in C++: memory by tensor name. Bound arrays are kept alive.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>
#include <memory>

#include "module.h"

namespace lathe_python {
namespace {

nb::object array_of(std::unique_ptr<api::HostTensor> tensor, const std::string& name) {
  const nb::dlpack::dtype type = dlpack_type(tensor->type, name);
  const std::vector<size_t> shape(tensor->dims.begin(), tensor->dims.end());
  void* memory = tensor->bytes.data();
  const nb::capsule owner(tensor.release(),
                          [](void* p) noexcept { delete static_cast<api::HostTensor*>(p); });
  return nb::cast(nb::ndarray<nb::numpy>(memory, shape.size(), shape.data(), owner, nullptr, type));
}

// Asks a Python function, f(output, bytes, shape) -> address. Its exception makes the run fail.
class PythonAllocator final : public api::OutputAllocator {
 public:
  explicit PythonAllocator(nb::object function) : function_(std::move(function)) {}
  void* allocate(std::string_view output, size_t bytes, const api::Dims& dims) override {
    const nb::gil_scoped_acquire acquire;
    const nb::str name(output.data(), output.size());
    return reinterpret_cast<void*>(nb::cast<uintptr_t>(function_(name, bytes, nb::tuple(nb::cast(dims)))));
  }

 private:
  nb::object function_;
};

// Tells a Python function, f(name, array), of tensors between layers.
class PythonListener final : public api::DebugListener {
 public:
  explicit PythonListener(nb::object function) : function_(std::move(function)) {}
  void on_tensor(std::string_view name, const api::HostTensor& values) override {
    const nb::gil_scoped_acquire acquire;
    function_(nb::str(name.data(), name.size()),
              array_of(std::make_unique<api::HostTensor>(values), std::string(name)));
  }

 private:
  nb::object function_;
};

struct PyContext {
  PyContext(PyEngine& engine, int profile, bool all_profiles)
      : context(engine.engine().create_context(
            profile, all_profiles ? api::ContextMemory::AllProfiles : api::ContextMemory::WhenNeeded)) {
    for (auto& t : engine.engine().inputs()) inputs.emplace(t.name, t), order.push_back(t);
    for (auto& t : engine.engine().outputs()) outputs.emplace(t.name, t);
  }
  void bind_input(const std::string& name, nb::handle object) {
    const auto known = inputs.find(name);
    const api::TensorInfo input = known != inputs.end() ? known->second : api::TensorInfo{.name = name};
    const Array array = to_array(object, input);
    context.bind_input(name, type_of(array.dtype(), name), logical_dims(input, dims_of(array)), array.data());
    bound_inputs[name] = array;
  }
  void bind_output(const std::string& name, const MutableArray& array) {
    context.bind_output(name, type_of(array.dtype(), name), array.data(), array.nbytes());
    bound_outputs[name] = array;
  }
  // By address: the memory is the caller's, and so is its lifetime.
  void bind_input_address(const std::string& name, const api::Dims& shape, uintptr_t address) {
    const auto known = inputs.find(name);
    context.bind_input(name, known != inputs.end() ? known->second.type : api::DataType::Float, shape,
                       reinterpret_cast<const void*>(address));
    bound_inputs.erase(name);
  }
  void bind_output_address(const std::string& name, uintptr_t address, size_t bytes) {
    const auto known = outputs.find(name);
    context.bind_output(name, known != outputs.end() ? known->second.type : api::DataType::Float,
                        reinterpret_cast<void*>(address), bytes);
    bound_outputs.erase(name), allocators.erase(name);
  }
  void bind_allocator(const std::string& name, nb::object function) {
    auto allocator = std::make_unique<PythonAllocator>(std::move(function));
    context.bind_output(name, *allocator);
    allocators[name] = std::move(allocator);
    bound_outputs.erase(name);
  }
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  Pairs keep_state(const Pairs& pairs) {
    std::vector<api::StatePair> wanted;
    for (const auto& [input, output] : pairs) wanted.push_back({input, output});
    Pairs kept;
    for (const api::StatePair& pair : context.keep_state(wanted)) {
      kept.emplace_back(pair.input, pair.output);
      bound_inputs.erase(pair.input), bound_outputs.erase(pair.output), allocators.erase(pair.output);
    }
    return kept;
  }
  void set_state(const std::string& name, nb::handle object) {
    const auto known = inputs.find(name);
    const Array array =
        to_array(object, known != inputs.end() ? known->second : api::TensorInfo{.name = name});
    context.set_state(name, type_of(array.dtype(), name), dims_of(array), array.data());
  }
  nb::object state(const std::string& name) {
    return array_of(std::make_unique<api::HostTensor>(context.state(name)), name);
  }
  // Copies, as for a call with arrays of the host on an engine of a GPU.
  nb::list run(const nb::list& arrays) {
    std::vector<api::HostTensor> tensors;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Array array = to_array(arrays[i], order.at(i));
      api::HostTensor& tensor = tensors.emplace_back(type_of(array.dtype(), order[i].name), dims_of(array));
      if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), array.data(), tensor.bytes.size());
    }
    std::vector<api::HostTensor> results;
    {
      const nb::gil_scoped_release release;
      results = context.run(tensors);
    }
    nb::list made;
    for (size_t i = 0; i < results.size(); ++i)
      made.append(
          array_of(std::make_unique<api::HostTensor>(std::move(results[i])), "number " + std::to_string(i)));
    return made;
  }
  void set_listener(nb::object function, const std::vector<std::string>& tensors) {
    auto made = function.is_none() ? nullptr : std::make_unique<PythonListener>(std::move(function));
    context.set_debug_listener(made.get(), tensors);
    listener = std::move(made);
  }
  api::ExecutionContext context;
  std::map<std::string, api::TensorInfo> inputs, outputs;
  std::vector<api::TensorInfo> order;  // inputs as the engine has them
  std::map<std::string, std::unique_ptr<PythonAllocator>> allocators;
  std::unique_ptr<PythonListener> listener;
  std::map<std::string, Array> bound_inputs;
  std::map<std::string, MutableArray> bound_outputs;
};

}  // namespace

void bind_context(nb::module_& m) {
  nb::class_<PyContext>(
      m, "ExecutionContext",
      "The state of running an engine. Used by one thread at a time; a second one gets an InputError.")
      .def(nb::init<PyEngine&, int, bool>(), nb::arg("engine"), nb::arg("profile") = 0,
           nb::arg("all_profiles") = false,
           "all_profiles: memory for the profile that needs most is taken at once; else what the profile "
           "needs, "
           "when its first shapes are set.")
      .def(
          "set_input_shape",
          [](PyContext& c, const std::string& name, const api::Dims& dims) {
            c.context.set_input_shape(name, dims);
          },
          nb::arg("input"), nb::arg("shape"))
      .def(
          "set_input_values",
          [](PyContext& c, const std::string& name, const std::vector<int64_t>& v) {
            c.context.set_input_values(name, v);
          },
          nb::arg("input"), nb::arg("elements"), "Elements of a shape tensor.")
      .def(
          "infer_shapes", [](PyContext& c) { return c.context.infer_shapes(); },
          "Checks the shapes. Returns the names of inputs that have none yet.")
      .def(
          "tensor_shape",
          [](PyContext& c, const std::string& name) {
            return nb::tuple(nb::cast(c.context.tensor_shape(name)));
          },
          nb::arg("tensor"),
          "Extents at the shapes that are set; upper bounds before a run where they depend on data.")
      .def(
          "tensor_bytes", [](PyContext& c, const std::string& name) { return c.context.tensor_bytes(name); },
          nb::arg("tensor"), "Bytes that the tensor's memory must have.")
      .def(
          "tensor_address",
          [](PyContext& c, const std::string& name) {
            return reinterpret_cast<uintptr_t>(c.context.tensor_address(name));
          },
          nb::arg("tensor"), "The address that the engine reads or writes; 0: nothing is bound.")
      .def("bind_input", &PyContext::bind_input, nb::arg("input"), nb::arg("array"),
           "Contiguous host memory is read in place, at each run.")
      .def("bind_output", &PyContext::bind_output, nb::arg("output"), nb::arg("array").noconvert(),
           "Written in place, at each run.")
      .def("bind_input_address", &PyContext::bind_input_address, nb::arg("input"), nb::arg("shape"),
           nb::arg("address"),
           "Memory of the engine's device and the input's type, row-major, which must live until another is "
           "bound.")
      .def("bind_output_address", &PyContext::bind_output_address, nb::arg("output"), nb::arg("address"),
           nb::arg("bytes"))
      .def("bind_output_allocator", &PyContext::bind_allocator, nb::arg("output"), nb::arg("function"),
           "function(output, bytes, shape) returns the address of memory for this run's result.")
      .def(
          "execute", [](PyContext& c) { c.context.execute(); }, nb::call_guard<nb::gil_scoped_release>(),
          "Runs once. The GIL is released.")
      .def(
          "execute", [](PyContext& c, api::Profiler& p) { c.context.execute(p); }, nb::arg("profiler"),
          nb::call_guard<nb::gil_scoped_release>(), "Runs once with a time per layer.")
      .def(
          "enqueue_cuda",
          [](PyContext& c, uintptr_t stream) {
            const nb::gil_scoped_release release;
            c.context.enqueue(api::CudaStream{reinterpret_cast<void*>(stream)});
          },
          nb::arg("stream") = 0,
          "For engines on GPUs: puts the run on a CUDA stream (its address; 0: the default stream) and "
          "returns. What is bound must live until the stream is done with it.")
      .def("run", &PyContext::run, nb::arg("arrays"),
           "Runs once on copies of host arrays, in the engine's order. Returns a list of arrays.")
      .def(
          "set_memory",
          [](PyContext& c, uintptr_t address, size_t bytes) {
            c.context.set_memory(reinterpret_cast<void*>(address), bytes);
          },
          nb::arg("address"), nb::arg("bytes"),
          "Activations lie there: memory_bytes of the engine's device, aligned to 256. 0: in memory of the "
          "context's own again. Contexts that never run at the same time may share it.")
      .def_prop_ro("memory_bytes", [](const PyContext& c) { return c.context.memory_bytes(); })
      .def(
          "set_allocator",
          [](PyContext& c, nb::handle allocator) { c.context.set_allocator(allocator_of(allocator)); },
          nb::arg("allocator").none(),
          "Each run takes memory_bytes for its activations from this allocator (a MemoryPool, or an object "
          "with allocate(bytes, alignment, stream) and deallocate(address, stream)) and gives them back "
          "behind "
          "itself. None: memory of the context's own again.")
      .def(
          "set_debug_listener", &PyContext::set_listener, nb::arg("function").none(),
          nb::arg("tensors") = std::vector<std::string>{},
          "function(name, array) gets these tensors between layers (none named: all) of each run, which then "
          "goes layer by layer. None: nobody.")
      .def(
          "debug_tensors", [](const PyContext& c) { return c.context.debug_tensors(); },
          "Names of the tensors between layers that fusion left.")
      .def("keep_state", &PyContext::keep_state, nb::arg("pairs") = PyContext::Pairs{},
           "From now on a run is a step: these outputs stay in memory of the context and are inputs of the "
           "next "
           "run. They are not bound.\n\n"
           "pairs: (input, output) each; none: those that names tell (past.x and present.x, h0 and hn). "
           "Returns "
           "the pairs.")
      .def(
          "drop_state", [](PyContext& c) { c.context.drop_state(); }, "State is bound by the caller again.")
      .def("set_state", &PyContext::set_state, nb::arg("input"), nb::arg("array"),
           "What an input that is state begins with, now and after each reset_state(). Copied.")
      .def("state", &PyContext::state, nb::arg("input"), "A copy of what the next step reads.")
      .def(
          "reset_state", [](PyContext& c) { c.context.reset_state(); },
          "State begins again with the next run.")
      .def(
          "state_notes", [](PyContext& c) { return c.context.state_notes(); },
          "A line per pair: how it is kept, and why not in place.")
      .def(
          "set_profile",
          [](PyContext& c, int index) {
            c.context.set_profile(index);
            c.bound_inputs.clear(), c.bound_outputs.clear();
          },
          nb::arg("index"), "Shapes and arrays have to be set again; state is not kept any more.")
      .def_prop_ro("profile", [](const PyContext& c) { return c.context.profile(); })
      .def_prop_ro("device_bytes", [](const PyContext& c) { return c.context.device_bytes(); });
}

}  // namespace lathe_python
