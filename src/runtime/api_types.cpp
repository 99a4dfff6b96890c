// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/version.h"
#include "runtime/api_bridge.h"

namespace lathe {

std::vector<v1::TensorInfo> to_public(const std::vector<TensorInfo>& infos) {
  std::vector<v1::TensorInfo> result;
  for (const TensorInfo& t : infos) {
    v1::TensorInfo info{.name = t.name,
                        .type = to_data_type(t.dtype),
                        .is_shape_tensor = t.contents.has_value(),
                        .format = t.format.is_linear()          ? v1::MemoryFormat::Linear
                                  : t.format == kChannelsLast   ? v1::MemoryFormat::ChannelsLast
                                  : t.format == kChannelsLast8  ? v1::MemoryFormat::ChannelsLast8
                                  : t.format == kChannelsLast16 ? v1::MemoryFormat::ChannelsLast16
                                                                : v1::MemoryFormat::ChannelsBlocked16,
                        .is_string = t.is_string};
    for (const Dim& d : t.shape) {
      info.dims.push_back(d.is_constant() ? d.value() : -1);
      info.dim_names.push_back(d.to_string());
    }
    result.push_back(std::move(info));
  }
  return result;
}

DeviceOptions to_device_options(const v1::DeviceConfig& config) {
  return {.device = config.device,
          .cpu_isa = config.cpu_isa,
          .threads = config.threads,
          .pool = nullptr,
          .allocator = config.allocator};
}

Tensor borrow(const v1::HostTensor& tensor, const std::string& name) {
  for (const int64_t d : tensor.dims)
    if (d < 0) throw_input_error("input '" + name + "' has a negative extent: " + to_string(tensor.dims));
  const DType dtype = to_dtype(tensor.type);
  const auto expected = static_cast<size_t>(dtype_bytes(dtype, element_count(tensor.dims)));
  if (tensor.bytes.size() != expected)
    throw_input_error("input '" + name + "' has " + std::to_string(tensor.bytes.size()) + " bytes, but " +
                      std::string(dtype_name(dtype)) + " " + to_string(tensor.dims) + " needs " +
                      std::to_string(expected));
  return Tensor::wrap(dtype, tensor.dims, tensor.bytes, nullptr);
}

namespace v1 {
namespace {

std::string message_of(const ErrorFields& fields) {
  std::string text = fields.where;
  for (const std::string& part : {fields.what, fields.why})
    if (!part.empty()) text += (text.empty() ? "" : ": ") + part;
  return fields.hint.empty() ? text : text + " (" + fields.hint + ")";
}

}  // namespace

Error::Error(ErrorKind kind, std::string message) : Error(kind, ErrorFields{.what = std::move(message)}) {}
Error::Error(ErrorKind kind, ErrorFields fields)
    : Error(kind, static_cast<ErrorCode>(code_of(static_cast<lathe::ErrorKind>(kind))), std::move(fields)) {}
Error::Error(ErrorKind kind, ErrorCode code, ErrorFields fields)
    : kind_(kind), code_(code), fields_(std::move(fields)), message_(message_of(fields_)) {}

std::string_view data_type_name(DataType type) {
  return translate_errors([&] { return dtype_name(to_dtype(type)); });
}
int64_t volume(const Dims& dims) {
  int64_t elements = 1;
  for (const int64_t d : dims)
    if (d < 0 || __builtin_mul_overflow(elements, d, &elements))
      throw Error(ErrorKind::Input, "extents " + lathe::to_string(dims) + " have no volume");
  return elements;
}
size_t data_bytes(DataType type, int64_t elements) {
  return translate_errors([&] { return static_cast<size_t>(dtype_bytes(to_dtype(type), elements)); });
}
void HostTensor::check_values(size_t count, size_t value_bytes) const {
  const bool packed = type == DataType::UInt4 || type == DataType::Int4;
  const size_t element_bytes = packed ? 1 : data_bytes(type, 1);
  if (count * value_bytes == bytes.size() && value_bytes == element_bytes) return;
  throw Error(ErrorKind::Input, std::to_string(count) + " values of " + std::to_string(value_bytes) +
                                    " bytes do not make a tensor: " + std::string(data_type_name(type)) +
                                    " " + lathe::to_string(dims) + " needs " + std::to_string(bytes.size()) +
                                    " bytes, " + std::to_string(element_bytes) + " a value");
}
std::string_view version() {
  return lathe::version();
}

}  // namespace v1
}  // namespace lathe
