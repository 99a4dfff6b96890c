// SPDX-License-Identifier: Apache-2.0
#include "onnx/message_copy.h"

namespace lathe::onnx {
namespace {

constexpr uint32_t kAttributeName = 1, kAttributeInt = 3, kAttributeType = 20;
constexpr uint32_t kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9;

}  // namespace

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void copy_field(WireReader& reader, std::string& out) {
  switch (reader.type()) {
    case WireType::Varint:
      put_key(out, reader.field(), WireType::Varint);
      put_varint(out, reader.varint());
      return;
    case WireType::Bytes:
      put_bytes(out, reader.field(), text_of(reader.bytes()));
      return;
    case WireType::Fixed32: {
      const float value = reader.float32();
      put_key(out, reader.field(), WireType::Fixed32);
      out.append(reinterpret_cast<const char*>(&value), sizeof value);
      return;
    }
    default:
      reader.fail("a field of this kind is not known");
  }
}

std::string tensor_bytes(const std::string& name, const Tensor& tensor) {
  std::string out;
  for (const int64_t extent : tensor.extents()) put_int(out, kTensorDims, extent);
  put_int(out, kTensorType, static_cast<int64_t>(tensor.dtype()));
  put_bytes(out, kTensorName, name);
  put_bytes(out, kTensorRaw, text_of(tensor.bytes()));
  return out;
}

std::string int_attribute(std::string_view name, int64_t value) {
  std::string out;
  put_bytes(out, kAttributeName, name);
  put_int(out, kAttributeInt, value);
  put_int(out, kAttributeType, static_cast<int64_t>(AttributeProto::Type::Int));
  return out;
}

std::string node_bytes(std::string_view op_type, const std::string& name,
                       const std::vector<std::string>& inputs, const std::string& output,
                       const IntAttributes& attributes, std::string_view domain) {
  std::string out;
  for (const std::string& input : inputs) put_bytes(out, kNodeInput, input);
  put_bytes(out, kNodeOutput, output);
  put_bytes(out, kNodeName, name);
  put_bytes(out, kNodeOpType, op_type);
  if (!domain.empty()) put_bytes(out, kNodeDomain, domain);
  for (const auto& [key, value] : attributes) put_bytes(out, kNodeAttribute, int_attribute(key, value));
  return out;
}

std::string opset_bytes(std::string_view domain, int64_t version) {
  std::string out;
  if (!domain.empty()) put_bytes(out, kOpsetDomain, domain);
  put_int(out, kOpsetVersion, version);
  return out;
}

void TakenNames::note(const GraphProto& graph) {
  for (const NodeProto& node : graph.nodes) {
    names_.emplace(node.name);
    for (const std::string_view output : node.outputs) names_.emplace(output);
    for (const AttributeProto& a : node.attributes)
      if (a.g) note(*a.g);
  }
  for (const ValueInfo& input : graph.inputs) names_.emplace(input.name);
  for (const TensorProto& tensor : graph.initializers) names_.emplace(tensor.name);
  for (const SparseTensorProto& tensor : graph.sparse_initializers) names_.emplace(tensor.values.name);
}

std::string TakenNames::unique(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 1; !names_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
  return name;
}

}  // namespace lathe::onnx
