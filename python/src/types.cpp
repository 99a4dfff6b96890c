// SPDX-License-Identifier: Apache-2.0
//
// Element types, tensors and the arrays of other libraries.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "module.h"

namespace lathe_python {
namespace {

struct TypePair {
  api::DataType type;
  nb::dlpack::dtype_code code;
  uint8_t bits;
};
using Code = nb::dlpack::dtype_code;
constexpr std::array kTypes = {
    TypePair{api::DataType::Float, Code::Float, 32}, TypePair{api::DataType::Double, Code::Float, 64},
    TypePair{api::DataType::Half, Code::Float, 16},  TypePair{api::DataType::BFloat16, Code::Bfloat, 16},
    TypePair{api::DataType::Int8, Code::Int, 8},     TypePair{api::DataType::Int16, Code::Int, 16},
    TypePair{api::DataType::Int32, Code::Int, 32},   TypePair{api::DataType::Int64, Code::Int, 64},
    TypePair{api::DataType::UInt8, Code::UInt, 8},   TypePair{api::DataType::UInt16, Code::UInt, 16},
    TypePair{api::DataType::UInt32, Code::UInt, 32}, TypePair{api::DataType::UInt64, Code::UInt, 64},
    TypePair{api::DataType::Bool, Code::Bool, 8},
};

[[noreturn]] void refuse_type(const std::string& what, const std::string& tensor) {
  throw api::Error(api::ErrorKind::Input, {.what = what,
                                           .where = "tensor '" + tensor + "'",
                                           .hint = "numpy has no such type; cast inside of the model"});
}

}  // namespace

api::DataType type_of(const nb::dlpack::dtype& dtype, const std::string& tensor) {
  for (const TypePair& t : kTypes)
    if (dtype.lanes == 1 && dtype.bits == t.bits && dtype.code == static_cast<uint8_t>(t.code)) return t.type;
  refuse_type("arrays of this type are not in the bindings yet", tensor);
}

api::DataType type_from_name(const std::string& name, const std::string& tensor) {
  for (const TypePair& t : kTypes)
    if (api::data_type_name(t.type) == name) return t.type;
  refuse_type("no tensor has type '" + name + "'", tensor);
}

nb::dlpack::dtype dlpack_type(api::DataType type, const std::string& tensor) {
  for (const TypePair& t : kTypes)
    if (t.type == type && type != api::DataType::BFloat16) return {static_cast<uint8_t>(t.code), t.bits, 1};
  refuse_type(std::string(api::data_type_name(type)) + " outputs are not in the bindings yet", tensor);
}

namespace {

int64_t channel_multiple(const api::TensorInfo& tensor) {
  if (tensor.format == api::MemoryFormat::ChannelsLast8) return 8;
  return tensor.format == api::MemoryFormat::ChannelsLast16 ? 16 : 1;
}

int64_t padded(const api::TensorInfo& tensor, int64_t channels) {
  const int64_t multiple = channel_multiple(tensor);
  return (channels + multiple - 1) / multiple * multiple;
}

}  // namespace

bool is_padded(const api::TensorInfo& tensor) {
  return channel_multiple(tensor) > 1;
}

api::Dims memory_dims(const api::TensorInfo& tensor, const api::Dims& dims) {
  if (!is_padded(tensor)) return dims;
  api::Dims memory = {dims.at(0)};
  memory.insert(memory.end(), dims.begin() + 2, dims.end());
  memory.push_back(padded(tensor, dims.at(1)));
  return memory;
}

api::Dims logical_dims(const api::TensorInfo& tensor, const api::Dims& memory) {
  if (!is_padded(tensor)) return memory;
  const int64_t channels = tensor.dims.at(1);
  if (channels < 0 || memory.size() != tensor.dims.size() || memory.back() != padded(tensor, channels))
    throw api::Error(
        api::ErrorKind::Input,
        {.what = "its channels are last and padded to a multiple of " +
                 std::to_string(channel_multiple(tensor)) + ": the array has other dims",
         .where = "tensor '" + tensor.name + "'",
         .hint = channels < 0 ? "bind its memory by address: how many channels it has is not known"
                              : "give it one of (N, height, width, padded channels)"});
  api::Dims dims = {memory[0], channels};
  dims.insert(dims.end(), memory.begin() + 1, memory.end() - 1);
  return dims;
}

Array to_array(nb::handle object, const api::TensorInfo& input) {
  Array array;
  if (input.is_string) {
    const nb::object bytes = nb::module_::import_("lathe._strings").attr("encode")(object, input.name);
    if (nb::try_cast(bytes, array)) return array;
  }
  if (!nb::try_cast(object, array)) {
    // What holds no array yet is made one of the input's type; what does keeps its own, which is then
    // checked.
    const nb::object numpy = nb::module_::import_("numpy");
    const bool has_type = nb::hasattr(object, "__array_interface__") || nb::hasattr(object, "dtype");
    const nb::object made = has_type
                                ? numpy.attr("ascontiguousarray")(object)
                                : numpy.attr("ascontiguousarray")(
                                      object, nb::str(std::string(api::data_type_name(input.type)).c_str()));
    if (!nb::try_cast(made, array)) refuse_type("it was given no array", input.name);
  }
  if (array.device_type() == nb::device::cpu::value) return array;
  throw api::Error(api::ErrorKind::Input, {.what = "memory of a GPU is not in the bindings yet",
                                           .where = "input '" + input.name + "'",
                                           .hint = "copy it to the host: x.cpu() in torch, x.get() in CuPy"});
}

void bind_types(nb::module_& m) {
  m.def(
      "version", [] { return std::string(api::version()); }, "The version of the library, \"0.2.0\".");
  nb::class_<api::TensorInfo>(m, "TensorInfo", "An input or output of a network or engine.")
      .def_ro("name", &api::TensorInfo::name)
      .def_prop_ro(
          "dtype", [](const api::TensorInfo& t) { return std::string(api::data_type_name(t.type)); },
          "Element type: \"float32\", \"int64\", ...")
      .def_prop_ro(
          "shape", [](const api::TensorInfo& t) { return nb::tuple(nb::cast(t.dims)); },
          "Extents, outermost first; -1 where a dim is dynamic.")
      .def_ro("dim_names", &api::TensorInfo::dim_names,
              "\"batch\" for a dynamic dim, \"3\" for a static one.")
      .def_ro("is_string", &api::TensorInfo::is_string,
              "A tensor of strings: uint8 with one dim more, their bytes in UTF-8 and zeros behind each end.")
      .def_ro("is_shape_tensor", &api::TensorInfo::is_shape_tensor, "Its elements decide shapes.")
      .def_prop_ro(
          "format",
          [](const api::TensorInfo& t) {
            constexpr const char* names[] = {"chw", "hwc", "chw16", "hwc8", "hwc16"};
            return names[static_cast<int>(t.format)];
          },
          "How its memory lies: \"chw\" (row-major), \"hwc\" (channels last), \"hwc8\" or \"hwc16\" "
          "(channels "
          "last, padded to a multiple) or \"chw16\". The shape is logical in all.")
      .def("__repr__", [](const api::TensorInfo& t) {
        std::string dims;
        for (const std::string& d : t.dim_names) dims += (dims.empty() ? "" : ", ") + d;
        return "<" + t.name + ": " + std::string(api::data_type_name(t.type)) + " [" + dims + "]>";
      });
}

}  // namespace lathe_python
