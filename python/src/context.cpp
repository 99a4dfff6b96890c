// SPDX-License-Identifier: Apache-2.0
//
// ExecutionContext as in C++: memory by tensor name. Bound arrays are kept alive.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "module.h"

namespace lathe_python {
namespace {

struct PyContext {
  PyContext(PyEngine& engine, int profile) : context(engine.engine().create_context(profile)) {
    for (auto& t : engine.engine().inputs()) inputs.emplace(t.name, t);
  }
  void bind_input(const std::string& name, nb::handle object) {
    const auto known = inputs.find(name);
    const Array array =
        to_array(object, known != inputs.end() ? known->second : api::TensorInfo{.name = name});
    context.bind_input(name, type_of(array.dtype(), name), dims_of(array), array.data());
    bound_inputs[name] = array;
  }
  void bind_output(const std::string& name, const MutableArray& array) {
    context.bind_output(name, type_of(array.dtype(), name), array.data(), array.nbytes());
    bound_outputs[name] = array;
  }
  api::ExecutionContext context;
  std::map<std::string, api::TensorInfo> inputs;
  std::map<std::string, Array> bound_inputs;
  std::map<std::string, MutableArray> bound_outputs;
};

}  // namespace

void bind_context(nb::module_& m) {
  nb::class_<PyContext>(
      m, "ExecutionContext",
      "The state of running an engine. Used by one thread at a time; a second one gets an InputError.")
      .def(nb::init<PyEngine&, int>(), nb::arg("engine"), nb::arg("profile") = 0)
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
      .def(
          "execute", [](PyContext& c) { c.context.execute(); }, nb::call_guard<nb::gil_scoped_release>(),
          "Runs once. The GIL is released.")
      .def(
          "execute", [](PyContext& c, api::Profiler& p) { c.context.execute(p); }, nb::arg("profiler"),
          nb::call_guard<nb::gil_scoped_release>(), "Runs once with a time per layer.")
      .def(
          "set_profile",
          [](PyContext& c, int index) {
            c.context.set_profile(index);
            c.bound_inputs.clear(), c.bound_outputs.clear();
          },
          nb::arg("index"), "Shapes and arrays have to be set again.")
      .def_prop_ro("profile", [](const PyContext& c) { return c.context.profile(); })
      .def_prop_ro("device_bytes", [](const PyContext& c) { return c.context.device_bytes(); });
}

}  // namespace lathe_python
