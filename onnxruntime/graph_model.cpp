// SPDX-License-Identifier: Apache-2.0
#include "graph_model.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "onnx/wire.h"

namespace lathe::onnxruntime_ep {
namespace {

using onnx::put_bytes;
using onnx::put_int;
using onnx::WireType;

// Numbers of fields and of attributes' types in onnx.proto.
enum ModelField : uint32_t { kIrVersion = 1, kProducer = 2, kGraph = 7, kOpset = 8 };
enum OpsetField : uint32_t { kOpsetDomain = 1, kOpsetVersion = 2 };
enum GraphField : uint32_t { kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12 };
enum NodeField : uint32_t {
  kNodeInput = 1,
  kNodeOutput = 2,
  kNodeName = 3,
  kOpType = 4,
  kAttribute = 5,
  kDomain = 7
};
enum TensorField : uint32_t { kTensorDims = 1, kTensorType = 2, kTensorName = 8, kRawData = 9 };
enum AttributeField : uint32_t {
  kAttributeName = 1,
  kF = 2,
  kI = 3,
  kS = 4,
  kT = 5,
  kG = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kAttributeType = 20
};
enum AttributeType {
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kBody = 5,
  kFloatList = 6,
  kIntList = 7,
  kStringList = 8
};
constexpr int64_t kFirstIr = 4;  // initializers need not be inputs

[[noreturn]] void refuse(const std::string& what) {
  throw StatusError(ORT_NOT_IMPLEMENTED, what);
}

struct ReleaseValue {
  void operator()(OrtValue* value) const { ort().ReleaseValue(value); }
};

// A TensorProto: all but its values, and where these are. Weights may be gigabytes, so they are copied once,
// into the model.
struct TensorBytes {
  std::string head;
  std::string_view values;
  size_t size() const { return head.size() + values.size(); }
};

TensorBytes tensor_bytes(const std::string& name, const OrtValue& value) {
  const TensorView view = view_of(value);
  const auto size = answer_of<size_t>(value, ort().GetTensorSizeInBytes);
  TensorBytes tensor;
  if (size > 0) tensor.values = {static_cast<const char*>(view.data), size};
  for (const int64_t dim : view.dims) put_int(tensor.head, kTensorDims, dim);
  put_int(tensor.head, kTensorType, view.element_type);
  put_bytes(tensor.head, kTensorName, name);
  onnx::put_key(tensor.head, kRawData, WireType::Bytes);
  onnx::put_varint(tensor.head, size);
  return tensor;
}

void put_tensor(std::string& out, uint32_t field, const TensorBytes& tensor) {
  onnx::put_key(out, field, WireType::Bytes);
  onnx::put_varint(out, tensor.size());
  out += tensor.head;
  out += tensor.values;
}

std::string value_bytes(const OrtValueInfo& value) {
  const ValueType type = type_of(value);
  std::string out;
  put_bytes(out, 1, name_of(&value));
  if (!type.is_tensor || type.element_type == 0) return out;
  std::string tensor, shape;
  put_int(tensor, 1, type.element_type);
  for (size_t i = 0; i < type.dims.size(); ++i) {
    std::string dim;
    if (type.dims[i] >= 0)
      put_int(dim, 1, type.dims[i]);
    else if (!type.dim_names[i].empty())
      put_bytes(dim, 2, type.dim_names[i]);
    put_bytes(shape, 1, dim);
  }
  if (type.has_rank) put_bytes(tensor, 2, shape);
  std::string tensor_type;
  put_bytes(tensor_type, 1, tensor);
  put_bytes(out, 2, tensor_type);
  return out;
}

// The attribute's value as the interface gives it: numbers one after the other, strings with a zero behind
// each of a list.
std::string attribute_data(const OrtOpAttr& attribute, OrtOpAttrType type) {
  size_t size = 0;
  // Without room, the answer is how much is needed, with an error that says so.
  if (OrtStatus* status = ort().ReadOpAttr(&attribute, type, nullptr, 0, &size)) ort().ReleaseStatus(status);
  std::string data(size, '\0');
  if (size > 0) check(ort().ReadOpAttr(&attribute, type, data.data(), data.size(), &size));
  return data;
}

void put_float(std::string& out, uint32_t field, const char* data) {
  onnx::put_key(out, field, WireType::Fixed32);
  out.append(data, sizeof(float));
}

int64_t whole_number(const char* data) {
  int64_t value = 0;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

std::string attribute_bytes(const OrtOpAttr& attribute) {
  const std::string name = answer_of<const char*>(attribute, ort().OpAttr_GetName);
  const auto type = answer_of<OrtOpAttrType>(attribute, ort().OpAttr_GetType);
  std::string out;
  put_bytes(out, kAttributeName, name);
  const auto kind = [&](AttributeType is) { put_int(out, kAttributeType, is); };
  if (type == ORT_OP_ATTR_TENSOR) {
    OrtValue* made = nullptr;
    check(ort().OpAttr_GetTensorAttributeAsOrtValue(&attribute, &made));
    const std::unique_ptr<OrtValue, ReleaseValue> value(made);
    if (!value) refuse("attribute '" + name + "' cannot be read");
    put_tensor(out, kT, tensor_bytes("", *value));
    kind(kTensor);
    return out;
  }
  const std::string data = type == ORT_OP_ATTR_UNDEFINED ? "" : attribute_data(attribute, type);
  switch (type) {
    case ORT_OP_ATTR_INT:
      put_int(out, kI, whole_number(data.data())), kind(kInt);
      break;
    case ORT_OP_ATTR_FLOAT:
      put_float(out, kF, data.data()), kind(kFloat);
      break;
    case ORT_OP_ATTR_STRING:
      put_bytes(out, kS, data), kind(kString);
      break;
    case ORT_OP_ATTR_INTS:
      for (size_t i = 0; i < data.size(); i += sizeof(int64_t)) put_int(out, kInts, whole_number(&data[i]));
      kind(kIntList);
      break;
    case ORT_OP_ATTR_FLOATS:
      for (size_t i = 0; i < data.size(); i += sizeof(float)) put_float(out, kFloats, &data[i]);
      kind(kFloatList);
      break;
    case ORT_OP_ATTR_STRINGS:
      for (size_t at = 0; at < data.size();) {
        const size_t end = std::min(data.find('\0', at), data.size());
        put_bytes(out, kStrings, std::string_view(data).substr(at, end - at));
        at = end + 1;
      }
      kind(kStringList);
      break;
    default:
      refuse("attribute '" + name + "' is of a type that cannot be read");
  }
  return out;
}

// The nodes of a model and of the bodies in it, which need names of their own for what is said of them.
class Writer {
 public:
  std::map<std::string, size_t, std::less<>> node_ids;

  std::string node_bytes(const OrtNode& node, size_t id) {
    std::string out;
    for (const OrtValueInfo* value : inputs_of(node)) put_bytes(out, kNodeInput, name_of(value));
    for (const OrtValueInfo* value : outputs_of(node)) put_bytes(out, kNodeOutput, name_of(value));
    put_bytes(out, kNodeName, unique_name(node, id));
    put_bytes(out, kOpType, answer_of<const char*>(node, ort().Node_GetOperatorType));
    put_bytes(out, kDomain, answer_of<const char*>(node, ort().Node_GetDomain));
    for (const OrtOpAttr* attribute :
         all_of<OrtNode, OrtOpAttr>(node, ort().Node_GetNumAttributes, ort().Node_GetAttributes))
      if (answer_of<OrtOpAttrType>(*attribute, ort().OpAttr_GetType) != ORT_OP_ATTR_GRAPH)
        put_bytes(out, kAttribute, attribute_bytes(*attribute));
    put_bodies(out, node, id);
    return out;
  }

 private:
  std::string unique_name(const OrtNode& node, size_t id) {
    std::string name = answer_of<const char*>(node, ort().Node_GetName);
    if (name.empty())
      name = std::string(answer_of<const char*>(node, ort().Node_GetOperatorType)) + "_" +
             std::to_string(answer_of<size_t>(node, ort().Node_GetId));
    const std::string wanted = name;
    for (int i = 1; !node_ids.emplace(name, id).second; ++i) name = wanted + "_" + std::to_string(i);
    return name;
  }

  void put_bodies(std::string& out, const OrtNode& node, size_t id) {
    const auto count = answer_of<size_t>(node, ort().Node_GetNumSubgraphs);
    if (count == 0) return;
    std::vector<const OrtGraph*> bodies(count);
    std::vector<const char*> names(count);
    check(ort().Node_GetSubgraphs(&node, bodies.data(), count, names.data()));
    for (size_t i = 0; i < count; ++i) {
      std::string attribute;
      put_bytes(attribute, kAttributeName, names[i]);
      put_bytes(attribute, kG, body_bytes(*bodies[i], id));
      put_int(attribute, kAttributeType, kBody);
      put_bytes(out, kAttribute, attribute);
    }
  }

  std::string body_bytes(const OrtGraph& body, size_t id) {
    std::string out;
    for (const OrtNode* node : nodes_of(body)) put_bytes(out, kNode, node_bytes(*node, id));
    put_bytes(out, kGraphName, "body");
    std::set<std::string> constants;
    for (const OrtValueInfo* value :
         all_of<OrtGraph, OrtValueInfo>(body, ort().Graph_GetNumInitializers, ort().Graph_GetInitializers)) {
      const auto* data = answer_of<const OrtValue*>(*value, ort().ValueInfo_GetInitializerValue);
      if (data == nullptr) continue;
      constants.insert(name_of(value));
      put_tensor(out, kInitializer, tensor_bytes(name_of(value), *data));
    }
    for (const OrtValueInfo* value :
         all_of<OrtGraph, OrtValueInfo>(body, ort().Graph_GetNumInputs, ort().Graph_GetInputs))
      if (!constants.contains(name_of(value))) put_bytes(out, kInput, value_bytes(*value));
    for (const OrtValueInfo* value :
         all_of<OrtGraph, OrtValueInfo>(body, ort().Graph_GetNumOutputs, ort().Graph_GetOutputs))
      put_bytes(out, kOutput, value_bytes(*value));
    return out;
  }
};

// The graph of a model: what its nodes read and none of them makes is an input or a constant.
struct GraphBytes {
  std::string rest;
  std::vector<TensorBytes> constants;

  void put_into(std::string& out) const {
    constexpr size_t kKey = 1;  // byte
    size_t size = rest.size();
    for (const TensorBytes& tensor : constants)
      size += kKey + static_cast<size_t>(onnx::varint_size(tensor.size())) + tensor.size();
    onnx::put_key(out, kGraph, WireType::Bytes);
    onnx::put_varint(out, size);
    out.reserve(out.size() + size);
    out += rest;
    for (const TensorBytes& tensor : constants) put_tensor(out, kInitializer, tensor);
  }
};

GraphBytes graph_bytes(const OrtGraph& graph, Writer& writer) {
  GraphBytes bytes;
  std::string& out = bytes.rest;
  std::set<std::string, std::less<>> made, seen;
  const std::vector<const OrtNode*> nodes = nodes_of(graph);
  for (const OrtNode* node : nodes)
    for (const OrtValueInfo* value : outputs_of(*node)) made.insert(name_of(value));
  const auto put_read = [&](const OrtValueInfo* value) {
    const std::string name = name_of(value);
    if (name.empty() || made.contains(name) || !seen.insert(name).second) return;
    if (!is_constant(value)) return put_bytes(out, kInput, value_bytes(*value));
    const auto* data = answer_of<const OrtValue*>(*value, ort().ValueInfo_GetInitializerValue);
    if (data == nullptr) refuse("constant '" + name + "' has no value");
    bytes.constants.push_back(tensor_bytes(name, *data));
  };
  for (const OrtNode* node : nodes) {
    put_bytes(out, kNode, writer.node_bytes(*node, answer_of<size_t>(*node, ort().Node_GetId)));
    for (const OrtValueInfo* value : inputs_of(*node)) put_read(value);
    for (const OrtValueInfo* value : captures_of(*node)) put_read(value);
  }
  put_bytes(out, kGraphName, "partition");
  for (const OrtValueInfo* value :
       all_of<OrtGraph, OrtValueInfo>(graph, ort().Graph_GetNumOutputs, ort().Graph_GetOutputs))
    if (made.contains(name_of(value))) put_bytes(out, kOutput, value_bytes(*value));
  return bytes;
}

}  // namespace

GraphModel write_model(const OrtGraph& graph) {
  GraphModel model;
  Writer writer;
  std::string& out = model.bytes;
  put_int(out, kIrVersion, std::max(kFirstIr, answer_of<int64_t>(graph, ort().Graph_GetOnnxIRVersion)));
  put_bytes(out, kProducer, "ONNX Runtime");
  const auto count = answer_of<size_t>(graph, ort().Graph_GetNumOperatorSets);
  std::vector<const char*> domains(count);
  std::vector<int64_t> versions(count);
  check(ort().Graph_GetOperatorSets(&graph, domains.data(), versions.data(), count));
  for (size_t i = 0; i < count; ++i) {
    std::string opset;
    put_bytes(opset, kOpsetDomain, domains[i]);
    put_int(opset, kOpsetVersion, versions[i]);
    put_bytes(out, kOpset, opset);
  }
  graph_bytes(graph, writer).put_into(out);
  model.node_ids = std::move(writer.node_ids);
  return model;
}

std::string why_not_writable(const OrtNode& node) {
  try {
    Writer().node_bytes(node, 0);
    return "";
  } catch (const StatusError& error) {
    return error.what();
  }
}

}  // namespace lathe::onnxruntime_ep
