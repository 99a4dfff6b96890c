// SPDX-License-Identifier: Apache-2.0
//
// Custom operators: libraries by path, and classes of Python over numpy. A class becomes an operator of the
// plugin interface; the interface's functions take the GIL and call it.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <cstring>
#include <optional>

#include "module.h"

namespace lathe_python {
namespace {

// A dim of an input while it is inferred: an expression of symbols. Numbers are Python's.
struct PyDim {
  const lathe_plugin_dims* functions;
  const lathe_plugin_dim* handle;
  std::shared_ptr<bool> alive;  // false when infer() has returned
  void check() const {
    if (!*alive) throw nb::value_error("a dim of a plugin's infer() lives until infer() returns");
  }
};

// Dims as Python sees them, and back.
class Dims {
 public:
  explicit Dims(const lathe_plugin_dims* functions) : f_(functions) {}
  ~Dims() { *alive_ = false; }
  Dims(const Dims&) = delete;
  Dims& operator=(const Dims&) = delete;
  nb::object to_python(const lathe_plugin_dim* handle) const {
    int64_t value = 0;
    if (f_->is_constant(f_->self, handle, &value)) return nb::int_(value);
    return nb::cast(PyDim{f_, handle, alive_});
  }
  const lathe_plugin_dim* from_python(nb::handle object) const {
    if (nb::isinstance<PyDim>(object)) {
      const auto& dim = nb::cast<const PyDim&>(object);
      dim.check();
      return dim.handle;
    }
    return f_->constant(f_->self, nb::cast<int64_t>(object));
  }

 private:
  const lathe_plugin_dims* f_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

nb::object operate(const PyDim& dim, int operation, nb::handle other, bool swapped) {
  dim.check();
  const auto* f = dim.functions;
  const lathe_plugin_dim* b = nb::isinstance<PyDim>(other) ? nb::cast<const PyDim&>(other).handle
                                                           : f->constant(f->self, nb::cast<int64_t>(other));
  const lathe_plugin_dim* result = swapped ? f->operation(f->self, operation, b, dim.handle)
                                           : f->operation(f->self, operation, dim.handle, b);
  if (!result) throw nb::value_error("the dim cannot be computed (is it divided by 0?)");
  int64_t value = 0;
  if (f->is_constant(f->self, result, &value)) return nb::int_(value);
  return nb::cast(PyDim{f, result, dim.alive});
}

// A class of Python as an operator, with its texts.
struct PyOperator {
  std::string name, version, name_space;
  nb::object cls;
  lathe_plugin_operator op{};
};

// What a class's infer() gets and gives.
std::string type_name(int type) {
  return type == 0 ? "" : std::string(api::data_type_name(static_cast<api::DataType>(type)));
}
int type_number(nb::handle dtype) {
  const std::string name =
      nb::cast<std::string>(nb::module_::import_("numpy").attr("dtype")(dtype).attr("name"));
  for (int type = 1; type < 24; ++type)
    if (type != 8 && type != 14 && type != 15 && type_name(type) == name) return type;
  throw nb::value_error(("no tensor has type " + name).c_str());
}

nb::object array_of(const lathe_plugin_tensor& t, bool writable) {
  const std::vector<size_t> shape(t.dims, t.dims + t.rank);
  const nb::capsule no_owner(t.data ? t.data : const_cast<lathe_plugin_tensor*>(&t), [](void*) noexcept {});
  nb::object array =
      nb::cast(nb::ndarray<nb::numpy>(t.data, shape.size(), shape.data(), no_owner, nullptr,
                                      dlpack_type(static_cast<api::DataType>(t.type), "of a plugin")));
  if (!writable) array.attr("setflags")(nb::arg("write") = false);
  return array;
}

nb::object field_value(const lathe_plugin_field& f) {
  if (f.type == 8) return nb::str(static_cast<const char*>(f.data), f.bytes);
  lathe_plugin_tensor t{
      .struct_size = sizeof t, .type = f.type, .rank = f.rank, .data = const_cast<void*>(f.data)};
  std::memcpy(t.dims, f.dims, f.rank * sizeof(int64_t));
  const nb::object copy = array_of(t, true).attr("copy")();
  if (f.rank == 0) return copy.attr("item")();
  return f.rank == 1 && (f.type == 1 || f.type == 7) ? nb::object(copy.attr("tolist")()) : copy;
}

// "ValueError: it is too large", of an exception of Python: a traceback has no room.
std::string last_line(const nb::python_error& error) {
  const std::string kind = nb::cast<std::string>(nb::str(error.type().attr("__name__")));
  return kind + ": " + nb::cast<std::string>(nb::str(error.value()));
}

// Runs with the GIL; an exception of Python becomes the error's text.
template <class F>
int guarded(lathe_plugin_error* error, F&& body) {
  const nb::gil_scoped_acquire acquire;
  try {
    body();
    return 0;
  } catch (const nb::python_error& e) {
    std::snprintf(error->text, sizeof error->text, "%s", last_line(e).c_str());
  } catch (const std::exception& e) {
    std::snprintf(error->text, sizeof error->text, "%s", e.what());
  }
  return 1;
}

nb::object& instance_of(void* instance) {
  return *static_cast<nb::object*>(instance);
}

bool has(void* instance, const char* method) {
  return nb::hasattr(instance_of(instance), method);
}

// (dtype, shape) of each operand at concrete extents, None for an absent one.
nb::list described(const lathe_plugin_tensor* tensors, size_t count) {
  nb::list all;
  for (size_t i = 0; i < count; ++i) {
    const lathe_plugin_tensor& t = tensors[i];
    if (t.type == 0)
      all.append(nb::none());
    else
      all.append(nb::make_tuple(type_name(t.type),
                                nb::tuple(nb::cast(std::vector<int64_t>(t.dims, t.dims + t.rank)))));
  }
  return all;
}

// (dtype, (smallest, tuned-for, largest shape)) of each operand.
nb::list described(const lathe_plugin_range* ranges, size_t count) {
  nb::list all;
  for (size_t i = 0; i < count; ++i) {
    const lathe_plugin_tensor bounds[] = {ranges[i].min, ranges[i].opt, ranges[i].max};
    const nb::list three = described(bounds, 3);
    if (bounds[0].type == 0)
      all.append(nb::none());
    else
      all.append(nb::make_tuple(three[0][0], nb::make_tuple(three[0][1], three[1][1], three[2][1])));
  }
  return all;
}

int create(const lathe_plugin_operator* op, const lathe_plugin_field* fields, size_t count, void** instance,
           lathe_plugin_error* error) {
  return guarded(error, [&] {
    nb::dict values;
    for (size_t i = 0; i < count; ++i) values[fields[i].name] = field_value(fields[i]);
    auto made = std::make_unique<nb::object>(static_cast<const PyOperator*>(op->user)->cls(values));
    *instance = made.release();
  });
}

void destroy(void* instance) {
  const nb::gil_scoped_acquire acquire;
  const std::unique_ptr<nb::object> owned(static_cast<nb::object*>(instance));
}

int infer(void* instance, const lathe_plugin_shape* inputs, size_t input_count, lathe_plugin_shape* outputs,
          size_t output_count, const lathe_plugin_dims* functions, lathe_plugin_error* error) {
  return guarded(error, [&] {
    const Dims dims(functions);
    nb::list given;
    for (size_t i = 0; i < input_count; ++i) {
      if (inputs[i].type == 0) {
        given.append(nb::none());
        continue;
      }
      nb::list shape;
      for (size_t d = 0; d < inputs[i].rank; ++d) shape.append(dims.to_python(inputs[i].dims[d]));
      given.append(nb::make_tuple(type_name(inputs[i].type), nb::tuple(shape)));
    }
    const nb::object answer = instance_of(instance).attr("infer")(given);
    const nb::list results(answer);
    if (results.size() != output_count)
      throw nb::value_error(("infer() gives " + std::to_string(results.size()) + " outputs, the node has " +
                             std::to_string(output_count))
                                .c_str());
    for (size_t i = 0; i < output_count; ++i) {
      const nb::object pair = results[i];
      outputs[i].type = type_number(pair[0]);
      const nb::list shape{nb::object(pair[1])};
      if (shape.size() > LATHE_PLUGIN_MAX_RANK) throw nb::value_error("an output has too many dims");
      outputs[i].rank = shape.size();
      for (size_t d = 0; d < shape.size(); ++d) outputs[i].dims[d] = dims.from_python(shape[d]);
    }
  });
}

int run(void* instance, const lathe_plugin_call* call, lathe_plugin_error* error) {
  return guarded(error, [&] {
    nb::list inputs, outputs;
    for (size_t i = 0; i < call->input_count; ++i)
      inputs.append(call->inputs[i].type == 0 ? nb::object(nb::none()) : array_of(call->inputs[i], false));
    for (size_t i = 0; i < call->output_count; ++i) outputs.append(array_of(call->outputs[i], true));
    if (has(instance, "tactics"))
      instance_of(instance).attr("run")(inputs, outputs, call->tactic);
    else
      instance_of(instance).attr("run")(inputs, outputs);
  });
}

int attach(void* instance, void** own, lathe_plugin_error* error) {
  return guarded(error, [&] {
    if (!has(instance, "attach")) return;
    const nb::object made = instance_of(instance).attr("attach")();
    if (!made.is_none() && !made.is(instance_of(instance)))
      *own = std::make_unique<nb::object>(made).release();
  });
}

int configure(void* instance, int, const lathe_plugin_range* inputs, size_t input_count,
              const lathe_plugin_range* outputs, size_t output_count, lathe_plugin_error* error) {
  return guarded(error, [&] {
    if (has(instance, "configure"))
      instance_of(instance).attr("configure")(described(inputs, input_count),
                                              described(outputs, output_count));
  });
}

size_t tactics(void* instance, int, const lathe_plugin_tensor* inputs, size_t input_count,
               const lathe_plugin_tensor* outputs, size_t output_count, int64_t* tactics, size_t room) {
  size_t count = 0;
  lathe_plugin_error ignored;  // a plugin that cannot say has none
  guarded(&ignored, [&] {
    if (!has(instance, "tactics")) return;
    const auto all = nb::cast<std::vector<int64_t>>(nb::list(instance_of(instance).attr("tactics")(
        described(inputs, input_count), described(outputs, output_count))));
    for (size_t i = 0; i < all.size() && i < room; ++i) tactics[i] = all[i];
    count = all.size();
  });
  return count;
}

void timing_key(void* instance, void (*set)(void* sink, const char* text), void* sink) {
  lathe_plugin_error ignored;
  guarded(&ignored, [&] {
    if (!has(instance, "timing_key")) return;
    const nb::object key = instance_of(instance).attr("timing_key")();
    if (!key.is_none()) set(sink, nb::cast<std::string>(key).c_str());
  });
}

std::shared_ptr<PyOperator> make_operator(nb::object cls) {
  const auto release = [](PyOperator* op) {
    const nb::gil_scoped_acquire acquire;
    const std::unique_ptr<PyOperator> owned(op);
  };
  std::shared_ptr<PyOperator> made(std::make_unique<PyOperator>().release(), release);
  const auto text = [&](const char* attribute, const char* otherwise) {
    return nb::cast<std::string>(nb::str(nb::getattr(cls, attribute, nb::str(otherwise))));
  };
  made->name = text("name", "");
  if (made->name.empty()) made->name = nb::cast<std::string>(cls.attr("__name__"));
  made->version = text("version", "1");
  made->name_space = text("namespace", "");
  for (const char* method : {"infer", "run"})
    if (!nb::hasattr(cls, method))
      throw api::Error(api::ErrorKind::Input, {.what = std::string("it has no method ") + method + "()",
                                               .where = "plugin class '" + made->name + "'",
                                               .hint = "see lathe.Plugin"});
  made->cls = std::move(cls);
  made->op = {.struct_size = sizeof(lathe_plugin_operator),
              .name = made->name.c_str(),
              .version = made->version.c_str(),
              .name_space = made->name_space.c_str(),
              .user = made.get(),
              .create = create,
              .destroy = destroy,
              .infer = infer,
              .run_cpu = run,
              .attach = attach,
              .configure = configure,
              .tactics = tactics,
              .timing_key = timing_key};
  return made;
}

}  // namespace

void bind_plugin(nb::module_& m) {
  nb::class_<PyDim> dim(m, "PluginDim",
                        "A dim that is not known yet: + - * // % with numbers and dims, min() and max().");
  const auto binary = [&](const char* name, const char* reversed, int operation) {
    dim.def(name, [operation](const PyDim& a, nb::handle b) { return operate(a, operation, b, false); });
    if (reversed)
      dim.def(reversed, [operation](const PyDim& a, nb::handle b) { return operate(a, operation, b, true); });
  };
  binary("__add__", "__radd__", LATHE_PLUGIN_ADD);
  binary("__sub__", "__rsub__", LATHE_PLUGIN_SUBTRACT);
  binary("__mul__", "__rmul__", LATHE_PLUGIN_MULTIPLY);
  binary("__floordiv__", "__rfloordiv__", LATHE_PLUGIN_FLOOR_DIV);
  binary("__mod__", "__rmod__", LATHE_PLUGIN_MODULO);
  binary("min", nullptr, LATHE_PLUGIN_MIN);
  binary("max", nullptr, LATHE_PLUGIN_MAX);

  nb::class_<api::PluginRegistry>(m, "PluginRegistry",
                                  "The custom operators that models and engines may use.")
      .def(nb::init<>())
      .def("load", &api::PluginRegistry::load, nb::arg("path"),
           "Loads a plugin library; its code runs in this process. Raises InputError for what is none.")
      .def(
          "add",
          [](api::PluginRegistry& r, nb::object cls) {
            const std::shared_ptr<PyOperator> op = make_operator(cls);
            r.add(op->op, op);
            return cls;
          },
          nb::arg("plugin"), "Adds a class like lathe.Plugin; works as a decorator, too.")
      .def("trust_engines", &api::PluginRegistry::trust_engines,
           "Libraries that engine files carry are run from now on: only for files that you trust like "
           "programs.")
      .def_prop_ro(
          "plugins",
          [](const api::PluginRegistry& r) {
            nb::list all;
            for (const api::PluginInfo& p : r.plugins()) {
              nb::dict entry;
              entry["name"] = p.name, entry["version"] = p.version, entry["namespace"] = p.name_space;
              entry["library"] = p.library;
              all.append(entry);
            }
            return all;
          },
          "A dict for each: name, version, namespace and library (empty for a class).");
}

}  // namespace lathe_python
