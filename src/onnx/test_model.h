// SPDX-License-Identifier: Apache-2.0
//
// Writes small ONNX models for tests, straight in the wire format, right or wrong as the test wants them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/wire.h"

namespace lathe::onnx {

// Element types in the numbers of TensorProto.
constexpr int kFloat = 1, kUInt8 = 2, kInt8 = 3, kInt16 = 5, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9,
              kUInt4 = 21;

class TestModel {
 public:
  using Names = std::vector<std::string>;

  explicit TestModel(int64_t opset = 17, int64_t ir_version = 8) : opset_(opset), ir_version_(ir_version) {}

  // A dim that is not a number is a name; "" is a dim without either.
  TestModel& input(std::string_view name, int dtype, const Names& dims) {
    return value_info(11, name, dtype, dims);
  }
  TestModel& input_without_shape(std::string_view name, int dtype) {
    std::string tensor, type, info;
    put_int(tensor, 1, dtype);
    put_bytes(type, 1, tensor);
    put_bytes(info, 1, name);
    put_bytes(info, 2, type);
    put_bytes(graph_, 11, info);
    return *this;
  }
  // A sequence (4) or an optional (9) of tensors; with 4 in it an optional sequence.
  TestModel& list_input(std::string_view name, int dtype, const Names& dims,
                        std::vector<uint32_t> kinds = {4}) {
    std::string tensor, type, info;
    put_int(tensor, 1, dtype);
    put_bytes(tensor, 2, shape_of(dims));
    put_bytes(type, 1, tensor);
    for (auto kind = kinds.rbegin(); kind != kinds.rend(); ++kind) {
      std::string wrapped, outer;
      put_bytes(wrapped, 1, type);
      put_bytes(outer, *kind, wrapped);
      type = outer;
    }
    put_bytes(info, 1, name);
    put_bytes(info, 2, type);
    put_bytes(graph_, 11, info);
    return *this;
  }
  TestModel& output(std::string_view name, int dtype = 1) { return value_info(12, name, dtype, {}); }

  // `attributes` are made by the functions below.
  TestModel& node(std::string_view op, const Names& in, const Names& out, const Names& attributes = {},
                  std::string_view domain = {}) {
    put_bytes(graph_, 1, make_node(op, in, out, attributes, domain));
    return *this;
  }
  static std::string make_node(std::string_view op, const Names& in, const Names& out,
                               const Names& attributes = {}, std::string_view domain = {}) {
    std::string n;
    for (const auto& name : in) put_bytes(n, 1, name);
    for (const auto& name : out) put_bytes(n, 2, name);
    put_bytes(n, 3, std::string(op) + "_of_" + (out.empty() ? "nothing" : out[0]));
    put_bytes(n, 4, op);
    for (const auto& a : attributes) put_bytes(n, 5, a);
    if (!domain.empty()) put_bytes(n, 7, domain);
    return n;
  }

  static std::string int_attribute(std::string_view name, int64_t value) {
    std::string a;
    put_bytes(a, 1, name);
    put_int(a, 3, value);
    put_int(a, 20, 2);
    return a;
  }
  static std::string ints_attribute(std::string_view name, const std::vector<int64_t>& values) {
    std::string a;
    put_bytes(a, 1, name);
    for (const int64_t v : values) put_int(a, 8, v);
    put_int(a, 20, 7);
    return a;
  }
  static std::string float_attribute(std::string_view name, float value) {
    std::string a;
    put_bytes(a, 1, name);
    put_key(a, 2, WireType::Fixed32);
    a.append(reinterpret_cast<const char*>(&value), sizeof(value));
    put_int(a, 20, 1);
    return a;
  }
  static std::string floats_attribute(std::string_view name, const std::vector<float>& values) {
    std::string a;
    put_bytes(a, 1, name);
    for (const float value : values) {
      put_key(a, 7, WireType::Fixed32);
      a.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    put_int(a, 20, 6);
    return a;
  }
  // `tensor`: what make_tensor makes.
  static std::string tensor_attribute(std::string_view name, std::string_view tensor) {
    std::string a;
    put_bytes(a, 1, name);
    put_bytes(a, 5, tensor);
    put_int(a, 20, 4);
    return a;
  }
  static std::string text_attribute(std::string_view name, std::string_view value) {
    std::string a;
    put_bytes(a, 1, name);
    put_bytes(a, 4, value);
    put_int(a, 20, 3);
    return a;
  }
  static std::string texts_attribute(std::string_view name, const Names& values) {
    std::string a;
    put_bytes(a, 1, name);
    for (const auto& v : values) put_bytes(a, 9, v);
    put_int(a, 20, 8);
    return a;
  }
  static std::string graph_attribute(std::string_view name, std::string_view graph) {
    std::string a;
    put_bytes(a, 1, name);
    put_bytes(a, 6, graph);
    put_int(a, 20, 5);
    return a;
  }
  static std::string reference_attribute(std::string_view name, std::string_view function_attribute,
                                         int64_t type) {
    std::string a;
    put_bytes(a, 1, name);
    put_int(a, 20, type);
    put_bytes(a, 21, function_attribute);
    return a;
  }

  static std::string make_tensor(std::string_view name, int dtype, const std::vector<int64_t>& dims,
                                 std::string_view raw) {
    std::string t = tensor_front(name, dtype, dims);
    put_bytes(t, 9, raw);
    return t;
  }
  template <class T>
  TestModel& constant(std::string_view name, int dtype, const std::vector<int64_t>& dims,
                      const std::vector<T>& values) {
    const std::string_view raw(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return initializer(make_tensor(name, dtype, dims, raw));
  }
  TestModel& strings(std::string_view name, const Names& values) {
    return initializer(make_strings(name, values));
  }
  static std::string make_strings(std::string_view name, const Names& values) {
    std::string t = tensor_front(name, 8, {static_cast<int64_t>(values.size())});
    for (const auto& v : values) put_bytes(t, 6, v);
    return t;
  }
  TestModel& ints(std::string_view name, const std::vector<int64_t>& values) {
    return constant<int64_t>(name, 7, {static_cast<int64_t>(values.size())}, values);
  }
  TestModel& external(std::string_view name, const std::vector<int64_t>& dims, std::string_view location,
                      std::string_view offset, std::string_view length) {
    std::string t = tensor_front(name, 1, dims);
    for (const auto& [key, value] :
         {std::pair{std::string_view("location"), location}, {"offset", offset}, {"length", length}}) {
      std::string entry;
      put_bytes(entry, 1, key);
      put_bytes(entry, 2, value);
      put_bytes(t, 13, entry);
    }
    put_int(t, 14, 1);
    return initializer(t);
  }
  TestModel& initializer(std::string_view tensor) {
    put_bytes(graph_, 5, tensor);
    return *this;
  }
  TestModel& sparse_initializer(std::string_view tensor) {
    put_bytes(graph_, 15, tensor);
    return *this;
  }
  TestModel& function(std::string_view bytes) {
    put_bytes(functions_, 25, bytes);
    return *this;
  }

  // The version of another domain's operators (1 where nothing says it).
  TestModel& opset_of(std::string_view domain, int64_t version) {
    std::string opset;
    put_bytes(opset, 1, domain);
    put_int(opset, 2, version);
    put_bytes(other_opsets_, 8, opset);
    return *this;
  }

  const std::string& graph() const { return graph_; }
  std::string bytes() const {
    std::string m, opset;
    put_int(m, 1, ir_version_);
    put_int(opset, 2, opset_);
    put_bytes(m, 8, opset);
    put_bytes(m, 7, graph_);
    return m + other_opsets_ + functions_;
  }

 private:
  static std::string tensor_front(std::string_view name, int dtype, const std::vector<int64_t>& dims) {
    std::string t;
    for (const int64_t d : dims) put_int(t, 1, d);
    put_int(t, 2, dtype);
    put_bytes(t, 8, name);
    return t;
  }

  static std::string shape_of(const Names& dims) {
    std::string shape;
    for (const auto& d : dims) {
      std::string dim;
      const bool number = !d.empty() && d.find_first_not_of("-0123456789") == std::string::npos;
      if (number) {
        put_int(dim, 1, std::stoll(d));
      } else if (!d.empty()) {
        put_bytes(dim, 2, d);
      }
      put_bytes(shape, 1, dim);
    }
    return shape;
  }

  TestModel& value_info(uint32_t field, std::string_view name, int dtype, const Names& dims) {
    std::string tensor, type, info;
    put_int(tensor, 1, dtype);
    if (field == 11) put_bytes(tensor, 2, shape_of(dims));
    put_bytes(type, 1, tensor);
    put_bytes(info, 1, name);
    put_bytes(info, 2, type);
    put_bytes(graph_, field, info);
    return *this;
  }

  int64_t opset_, ir_version_;
  std::string graph_, functions_, other_opsets_;
};

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace lathe::onnx
