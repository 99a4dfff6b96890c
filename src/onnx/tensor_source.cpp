// SPDX-License-Identifier: Apache-2.0
//
// TensorProto -> Tensor. Bytes in the model are used in place when they are aligned for their type (the zoo's
// files are made so); otherwise they are copied once. External data is read, from files below the model's
// folder only (base/file_below.h): a model from somewhere else must not read /etc/passwd.
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "ir/strings.h"
#include "onnx/model.h"

namespace lathe::onnx {

namespace fs = std::filesystem;

void throw_unsupported(std::string reason) {
  throw UnsupportedError(std::move(reason));
}

namespace {

constexpr int64_t kMostSparseElements = int64_t{1} << 28;

std::string quote(std::string_view name) {
  return "'" + std::string(name) + "'";
}

size_t alignment(DType dtype) {
  return static_cast<size_t>(std::max(1, dtype_info(dtype).bits / 8));
}

// Bytes that the tensor must have; refuses dims whose product no memory could hold.
size_t expected_bytes(const TensorProto& t, DType dtype) {
  int64_t elements = 1;
  for (const int64_t d : t.dims) {
    if (d < 0) throw_input_error("tensor " + quote(t.name) + ": negative dimension " + std::to_string(d));
    if (__builtin_mul_overflow(elements, d, &elements) || elements > (int64_t{1} << 56)) {
      throw_input_error("tensor " + quote(t.name) + ": its dimensions multiply to more elements than can be");
    }
  }
  return static_cast<size_t>(dtype_bytes(dtype, elements));
}

int64_t parse_number(std::string_view text, std::string_view key, std::string_view tensor) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw_input_error("external data of tensor " + quote(tensor) + ": " + std::string(key) + " is " +
                      quote(text) + ", not a number of bytes");
  }
  return value;
}

[[noreturn]] void wrong_count(const TensorProto& t, size_t have, size_t want, std::string_view unit) {
  throw_input_error("tensor " + quote(t.name) + " of " + to_string(Extents(t.dims)) + ": has " +
                    std::to_string(have) + " " + std::string(unit) + " of data instead of " +
                    std::to_string(want));
}

template <class To, class From>
void copy_values(const TensorProto& t, const std::vector<From>& from, Tensor& to) {
  const auto bytes = to.mutable_bytes();
  if (from.size() * sizeof(To) != bytes.size())
    wrong_count(t, from.size(), bytes.size() / sizeof(To), "elements");
  for (size_t i = 0; i < from.size(); ++i) {
    const To value = static_cast<To>(from[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
}

size_t typed_count(const TensorProto& t) {
  return t.float_data.size() + t.int32_data.size() + t.int64_data.size() + t.double_data.size() +
         t.uint64_data.size();
}

// Any byte but zero is true in a file, and only one is in memory: other values are undefined behaviour for
// bool.
Tensor load_bools(const Extents& dims, std::span<const std::byte> bytes) {
  Tensor out = Tensor::allocate(DType::Bool, dims);
  const auto to = out.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) to[i] = std::byte{bytes[i] != std::byte{0}};
  return out;
}

// Which list holds a type is fixed by onnx.proto: small types sit in int32_data, one element per entry (4-bit
// types: one byte).
Tensor from_typed_data(const TensorProto& t, DType dtype, size_t want) {
  const size_t count = typed_count(t);
  const size_t bytes_each = alignment(dtype);
  if (count > want || count * bytes_each != want) wrong_count(t, count, want / bytes_each, "elements");
  Tensor out = Tensor::allocate(dtype, t.dims);
  switch (dtype) {
    case DType::Float32:
      copy_values<float>(t, t.float_data, out);
      break;
    case DType::Float64:
      copy_values<double>(t, t.double_data, out);
      break;
    case DType::Int64:
      copy_values<int64_t>(t, t.int64_data, out);
      break;
    case DType::Int32:
      copy_values<int32_t>(t, t.int32_data, out);
      break;
    case DType::UInt64:
      copy_values<uint64_t>(t, t.uint64_data, out);
      break;
    case DType::UInt32:
      copy_values<uint32_t>(t, t.uint64_data, out);
      break;
    case DType::Int16:
    case DType::UInt16:
    case DType::Float16:
    case DType::BFloat16:
      copy_values<uint16_t>(t, t.int32_data, out);
      break;
    default:
      copy_values<uint8_t>(t, t.int32_data, out);
      break;
  }
  if (dtype == DType::Bool) return load_bools(t.dims, out.bytes());
  return out;
}

}  // namespace

DType dtype_from_onnx(int32_t data_type, std::string_view what) {
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.dtype != DType::Undefined && static_cast<int32_t>(info.dtype) == data_type) return info.dtype;
  }
  const std::string_view name = data_type == 8    ? "string"
                                : data_type == 14 ? "complex64"
                                : data_type == 15 ? "complex128"
                                : data_type == 0  ? "undefined"
                                                  : "";
  throw_unsupported(std::string(what) + " has element type " + std::to_string(data_type) +
                    (name.empty() ? std::string() : " (" + std::string(name) + ")") +
                    ", which is not supported: numbers and booleans are");
}

TensorSource::ExternalFile& TensorSource::open_external(std::string_view location, std::string_view tensor) {
  const std::string where = "external data of tensor " + quote(tensor) + ": ";
  if (folder_.empty())
    throw_input_error(where + "the model was not read from a file, so there is no folder to look in");
  const fs::path relative{std::string(location)};
  if (location.empty() || location.find('\0') != std::string_view::npos || relative.is_absolute()) {
    throw_input_error(where + "location " + quote(location) +
                      " must be a path relative to the model's folder");
  }
  if (const auto it = files_.find(location); it != files_.end()) return it->second;
  try {
    auto file = std::make_shared<const FileBelow>(folder_, relative);
    return files_.emplace(std::string(location), ExternalFile{std::move(file), {}, 0}).first->second;
  } catch (Error& error) {
    error.add_context("external data of tensor " + quote(tensor));
    throw;
  }
}

Tensor TensorSource::load_external(const TensorProto& t, DType dtype, size_t expected) {
  std::string_view location;
  int64_t offset = 0;
  std::optional<int64_t> length;
  for (const auto& [key, value] : t.external_data) {
    if (key == "location") location = value;
    if (key == "offset") offset = parse_number(value, key, t.name);
    if (key == "length") length = parse_number(value, key, t.name);
  }
  ExternalFile& from = open_external(location, t.name);
  const size_t size = from.file->bytes(), begin = static_cast<size_t>(offset);
  const std::string where = "external data of tensor " + quote(t.name) + ": ";
  if (length && static_cast<size_t>(*length) != expected) {
    throw_input_error(where + "length is " + std::to_string(*length) + " but " + to_string(Extents(t.dims)) +
                      " needs " + std::to_string(expected) + " bytes");
  }
  if (begin > size || expected > size - begin) {
    throw_input_error(where + "bytes " + std::to_string(offset) + " to " + std::to_string(begin + expected) +
                      " pass the end of " + quote(location) + ", which has " + std::to_string(size));
  }
  // Tensors may share bytes; a small file must not become a large memory.
  const auto known = from.tensors.find({begin, expected});
  if (known != from.tensors.end() && known->second.dtype() == dtype) return known->second.reshaped(t.dims);
  from.bytes_read += expected;
  if (from.bytes_read > 2 * size)
    throw_input_error(where + "the model reads more than twice as many bytes of " + quote(location) +
                      " as it has");
  Tensor tensor = Tensor::allocate(dtype, t.dims);
  try {
    from.file->read(begin, tensor.mutable_bytes());
  } catch (Error& error) {
    error.add_context("external data of tensor " + quote(t.name));
    throw;
  }
  if (dtype == DType::Bool) tensor = load_bools(t.dims, tensor.bytes());
  from.tensors.insert_or_assign({begin, expected}, tensor);
  return tensor;
}

Tensor TensorSource::load(const SparseTensorProto& t) {
  const std::string where = "sparse tensor " + quote(t.values.name) + ": ";
  const Tensor values = load(t.values);
  const std::vector<int64_t> indices = load(t.indices).to_int64s();
  const auto rank = static_cast<int64_t>(t.dims.size());
  // A few values stand for any number of zeros, and the model's bytes do not say how many are meant.
  Dim elements = 1;
  for (const int64_t d : t.dims) {
    if (d < 0) throw_input_error(where + "dimension " + std::to_string(d));
    elements = elements * d;
  }
  if (elements.value() > kMostSparseElements)
    throw_input_error(where + to_string(Extents(t.dims)) + " is too large to be written out");
  const bool by_dim = t.indices.dims.size() == 2;
  const int64_t count = values.size();
  if (values.rank() != 1 || (by_dim ? t.indices.dims[1] != rank : t.indices.dims.size() != 1) ||
      static_cast<int64_t>(indices.size()) != count * (by_dim ? rank : 1))
    throw_input_error(where + "its indices " + to_string(Extents(t.indices.dims)) + " do not fit " +
                      std::to_string(count) + " values");
  Tensor dense = Tensor::allocate(values.dtype(), t.dims);
  const int64_t bits = dtype_info(values.dtype()).bits;
  if (bits < 8) throw_unsupported(where + "values smaller than a byte are not supported");
  std::memset(dense.mutable_bytes().data(), 0, dense.mutable_bytes().size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = by_dim ? 0 : indices[static_cast<size_t>(i)];
    for (int64_t d = 0; by_dim && d < rank; ++d) {
      const int64_t index = indices[static_cast<size_t>(i * rank + d)],
                    extent = t.dims[static_cast<size_t>(d)];
      if (index < 0 || index >= extent)
        throw_input_error(where + "index " + std::to_string(index) + " is not below " +
                          std::to_string(extent));
      at = at * extent + index;
    }
    if (at < 0 || at >= dense.size())
      throw_input_error(where + "index " + std::to_string(at) + " is not below " +
                        std::to_string(dense.size()));
    std::memcpy(dense.mutable_bytes().data() + at * bits / 8, values.bytes().data() + i * bits / 8,
                static_cast<size_t>(bits / 8));
  }
  return dense;
}

Tensor TensorSource::load_strings(const TensorProto& t) {
  expected_bytes(t, DType::UInt8);  // dims that can be
  try {
    return strings_tensor(t.dims, t.string_data);
  } catch (Error& error) {
    error.add_context("tensor " + quote(t.name));
    throw;
  }
}

Tensor TensorSource::load(const TensorProto& t) {
  const DType dtype = dtype_from_onnx(t.data_type, "tensor " + quote(t.name));
  const size_t want = expected_bytes(t, dtype);
  if (t.external) return load_external(t, dtype, want);
  std::span<const std::byte> bytes;
  if (t.raw_data) {
    bytes = *t.raw_data;
    if (bytes.size() != want) wrong_count(t, bytes.size(), want, "bytes");
  } else {
    return from_typed_data(t, dtype, want);
  }
  if (dtype == DType::Bool) return load_bools(t.dims, bytes);
  if (want > 0 && owner_ && reinterpret_cast<uintptr_t>(bytes.data()) % alignment(dtype) == 0) {
    return Tensor::wrap(dtype, t.dims, bytes, owner_);
  }
  Tensor copy = Tensor::allocate(dtype, t.dims);
  if (want > 0) std::memcpy(copy.mutable_bytes().data(), bytes.data(), want);
  return copy;
}

}  // namespace lathe::onnx
