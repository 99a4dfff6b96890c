// SPDX-License-Identifier: Apache-2.0
//
// A small ONNX model, written byte by byte: y = Relu(x * weights + bias), x of batch x 4, y of batch x 3. The
// public API's test links nothing of the library's inside, so it has no other writer. Field numbers are those
// of onnx.proto.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace lathe::api_test {

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value > 0x7f; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string field(int number, uint64_t value) {
  return varint(static_cast<uint64_t>(number) << 3) + varint(value);
}
inline std::string field(int number, const std::string& bytes) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}

inline std::string tensor(const std::string& name, const std::vector<int64_t>& dims,
                          const std::vector<float>& values) {
  std::string out;
  for (const int64_t d : dims) out += field(1, static_cast<uint64_t>(d));
  std::string data(values.size() * sizeof(float), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  return out + field(2, 1) + field(8, name) + field(9, data);
}

inline std::string node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& output) {
  std::string out;
  for (const std::string& input : inputs) out += field(1, input);
  return out + field(2, output) + field(3, op + "_" + output) + field(4, op);
}

// A float value of two dims, the first with a name.
inline std::string value(const std::string& name, const std::string& first, uint64_t second) {
  const std::string shape = field(1, field(2, first)) + field(1, field(1, second));
  return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)));
}

inline std::string tiny_onnx() {
  const std::string graph = field(1, node("MatMul", {"x", "weights"}, "product")) +
                            field(1, node("Add", {"product", "bias"}, "sum")) +
                            field(1, node("Relu", {"sum"}, "y")) + field(2, "tiny") +
                            field(5, tensor("weights", {4, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1})) +
                            field(5, tensor("bias", {3}, {0, 10, -100})) + field(11, value("x", "batch", 4)) +
                            field(12, value("y", "batch", 3));
  return field(1, 8) + field(7, graph) + field(8, field(2, 17));
}

// y = NonZero(x): how many there are depends on the data.
inline std::string nonzero_onnx() {
  const std::string shape = field(1, field(1, 2)) + field(1, field(2, "count"));
  const std::string indices = field(1, "y") + field(2, field(1, field(1, 7) + field(2, shape)));
  const std::string graph = field(1, node("NonZero", {"x"}, "y")) + field(2, "nonzero") +
                            field(11, value("x", "batch", 4)) + field(12, indices);
  return field(1, 8) + field(7, graph) + field(8, field(2, 17));
}

// y = Range(start, limit, delta), of floats: nothing bounds how many there are.
inline std::string range_onnx() {
  const auto floats = [](const std::string& name, const std::string& shape) {
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)));
  };
  const std::string graph = field(1, node("Range", {"start", "limit", "delta"}, "y")) + field(2, "range") +
                            field(11, floats("start", "")) + field(11, floats("limit", "")) +
                            field(11, floats("delta", "")) +
                            field(12, floats("y", field(1, field(2, "count"))));
  return field(1, 8) + field(7, graph) + field(8, field(2, 17));
}

// Two nodes that nobody knows.
inline std::string unknown_onnx() {
  const std::string graph = field(1, node("Frobnicate", {"x"}, "a")) +
                            field(1, node("Defrobnicate", {"a"}, "y")) + field(2, "unknown") +
                            field(11, value("x", "batch", 4)) + field(12, value("y", "batch", 4));
  return field(1, 8) + field(7, graph) + field(8, field(2, 17));
}

}  // namespace lathe::api_test
