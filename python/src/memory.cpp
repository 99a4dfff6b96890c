// SPDX-License-Identifier: Apache-2.0
//
// Allocators: pools, and objects of Python with allocate() and deallocate().
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "module.h"

namespace lathe_python {
namespace {

// Asks a Python object, on whatever thread needs memory. Nobody may hold the GIL while he waits for such a
// thread.
class PythonMemory final : public api::Allocator {
 public:
  explicit PythonMemory(nb::object object) : object_(std::move(object)) {}
  ~PythonMemory() override {
    if (!nb::is_alive()) {  // the interpreter has gone: so has the object
      (void)object_.release();
      return;
    }
    const nb::gil_scoped_acquire acquire;
    object_.reset();
  }
  void* allocate(size_t bytes, size_t alignment, void* stream) override {
    const nb::gil_scoped_acquire acquire;
    const nb::object address =
        object_.attr("allocate")(bytes, alignment, reinterpret_cast<uintptr_t>(stream));
    return address.is_none() ? nullptr : reinterpret_cast<void*>(nb::cast<uintptr_t>(address));
  }
  void deallocate(void* memory, void* stream) noexcept override {
    if (!nb::is_alive()) return;
    const nb::gil_scoped_acquire acquire;
    try {
      object_.attr("deallocate")(reinterpret_cast<uintptr_t>(memory), reinterpret_cast<uintptr_t>(stream));
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("deallocate() of an allocator");
    }
  }

 private:
  nb::object object_;
};

}  // namespace

std::shared_ptr<api::Allocator> allocator_of(nb::handle object) {
  if (!object.is_valid() || object.is_none()) return nullptr;
  if (nb::isinstance<api::Allocator>(object)) return nb::cast<std::shared_ptr<api::Allocator>>(object);
  if (!nb::hasattr(object, "allocate") || !nb::hasattr(object, "deallocate"))
    throw api::Error(api::ErrorKind::Input,
                     {.what = "it is no allocator",
                      .where = "allocator",
                      .why = "it has no allocate(bytes, alignment, stream) and deallocate(address, stream)",
                      .hint = "give a lathe.MemoryPool, or an object with both"});
  return std::make_shared<PythonMemory>(nb::borrow(object));
}

void bind_memory(nb::module_& m) {
  nb::class_<api::Allocator>(m, "Allocator", "Gives memory of one device.")
      .def(
          "allocate",
          [](api::Allocator& a, size_t bytes, size_t alignment, uintptr_t stream) {
            return reinterpret_cast<uintptr_t>(a.allocate(bytes, alignment, reinterpret_cast<void*>(stream)));
          },
          nb::arg("bytes"), nb::arg("alignment") = 256, nb::arg("stream") = 0,
          "The address; 0: there is none.")
      .def(
          "deallocate",
          [](api::Allocator& a, uintptr_t address, uintptr_t stream) {
            a.deallocate(reinterpret_cast<void*>(address), reinterpret_cast<void*>(stream));
          },
          nb::arg("address"), nb::arg("stream") = 0);
  nb::class_<api::MemoryPool, api::Allocator>(
      m, "MemoryPool",
      "Keeps what is given back for whoever asks next. The allocator of builders, runtimes and contexts:\n\n"
      "    pool = lathe.MemoryPool(limit_bytes=1 << 30)\n"
      "    engine = lathe.Runtime(allocator=pool).load(\"model.engine\")")
      .def(
          "__init__",
          [](api::MemoryPool* self, nb::object source, size_t limit_bytes) {
            new (self) api::MemoryPool(allocator_of(source), limit_bytes);
          },
          nb::arg("source") = nb::none(), nb::arg("limit_bytes") = 0,
          "source: where memory comes from; None: the host. limit_bytes: of all pieces, kept ones included; "
          "0: no limit.")
      .def("trim", &api::MemoryPool::trim, nb::call_guard<nb::gil_scoped_release>(),
           "Gives back to the source what nobody uses. Returns its bytes.")
      .def_prop_ro("used_bytes", &api::MemoryPool::used_bytes)
      .def_prop_ro("kept_bytes", &api::MemoryPool::kept_bytes)
      .def_prop_ro("peak_bytes", &api::MemoryPool::peak_bytes, "The most that was in use at a time.");
  m.def(
      "device_allocator", [](const std::string& device) { return api::device_allocator({.device = device}); },
      nb::arg("device") = "cpu", "What the library takes memory of a device from, as the source of a pool.");
}

}  // namespace lathe_python
