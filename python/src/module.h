// SPDX-License-Identifier: Apache-2.0
//
// What the binding files share. Each of them binds one topic of the public API; module.cpp lists them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lathe/builder.h"
#include "lathe/network.h"
#include "lathe/runtime.h"

namespace lathe_python {

namespace nb = nanobind;
namespace api = lathe::v1;

// Memory of an argument: row-major, read in place. What is strided otherwise is copied once.
using Array = nb::ndarray<nb::ro, nb::c_contig>;
using MutableArray = nb::ndarray<nb::c_contig>;

// The element type of an array; throws Error for one that no tensor has.
api::DataType type_of(const nb::dlpack::dtype& dtype, const std::string& tensor);
// "uint8" of numpy; throws Error for another word.
api::DataType type_from_name(const std::string& name, const std::string& tensor);
nb::dlpack::dtype dlpack_type(api::DataType type, const std::string& tensor);

template <class AnyArray>
api::Dims dims_of(const AnyArray& array) {
  api::Dims dims;
  for (size_t i = 0; i < array.ndim(); ++i) dims.push_back(static_cast<int64_t>(array.shape(i)));
  return dims;
}

// Where channels are padded an array has the dims of its memory: (N, spatial dims, padded channels).
bool is_padded(const api::TensorInfo& tensor);
api::Dims memory_dims(const api::TensorInfo& tensor, const api::Dims& dims);
// The reverse; throws Error for an array of other dims, and where the number of channels is not known.
api::Dims logical_dims(const api::TensorInfo& tensor, const api::Dims& memory);

// Any object that is or makes an array: DLPack, buffers and __array_interface__ without a copy; numbers and
// lists as `type`.
Array to_array(nb::handle object, const api::TensorInfo& input);

// An engine, and idle contexts for calls: each call in flight has one of its own, so that threads do not wait
// for each other.
class PyEngine {
 public:
  explicit PyEngine(api::Engine engine);
  const api::Engine& engine() const { return engine_; }
  bool uses_host_memory() const { return uses_host_memory_; }
  nb::object call(const nb::args& args, const nb::kwargs& kwargs, api::Profiler* profiler);
  // The same for an engine of a GPU, in lathe/_gpu.py; without a profiler, None.
  nb::object call_on_gpu(const nb::args& args, const nb::kwargs& kwargs, nb::handle profiler);

  struct Caller;
  std::unique_ptr<Caller> take();
  void give_back(std::unique_ptr<Caller> caller);

 private:
  api::Engine engine_;
  std::vector<api::TensorInfo> inputs_, outputs_;
  bool uses_host_memory_;
  nb::object gpu_calls_;  // made by the first call
  std::mutex mutex_;
  std::vector<std::unique_ptr<Caller>> idle_;
};

// Sends lines to a function of severity and text, or for None to logging.getLogger("lathe").
std::unique_ptr<api::Logger> make_logger(nb::object function);

// A MemoryPool, or an object with allocate() and deallocate(); null for None. Throws Error for another object.
std::shared_ptr<api::Allocator> allocator_of(nb::handle object);

void bind_errors(nb::module_& m);
void bind_types(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_network(nb::module_& m);
void bind_builder(nb::module_& m);
void bind_engine(nb::module_& m);
void bind_context(nb::module_& m);
void bind_image(nb::module_& m);
void bind_plugin(nb::module_& m);

}  // namespace lathe_python
