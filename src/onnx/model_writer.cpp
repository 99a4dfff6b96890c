// SPDX-License-Identifier: Apache-2.0
#include "onnx/model_writer.h"

#include "base/version.h"
#include "onnx/model.h"
#include "onnx/wire.h"

namespace lathe::onnx {

namespace {

constexpr size_t kSmallTensor = 1024;  // bytes up to which a tensor stays in the model's file
constexpr size_t kPageBytes = 4096;    // readers map the file of weights

void put_float(std::string& out, uint32_t field, float value) {
  put_key(out, field, WireType::Fixed32);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_tensor_head(std::string& out, const std::string& name, const Tensor& tensor) {
  for (const int64_t extent : tensor.extents()) put_int(out, 1, extent);
  put_int(out, 2, static_cast<int64_t>(tensor.dtype()));
  if (!name.empty()) put_bytes(out, 8, name);
}

std::string_view raw_data_of(const Tensor& tensor) {
  check(tensor.has_bytes() || tensor.size() == 0, "a constant whose bytes were packed cannot be written");
  return {reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size()};
}

// The fields of an AttributeProto behind its name.
struct PutAttribute {
  std::string& out;
  void type(AttributeProto::Type t) { put_int(out, 20, static_cast<int64_t>(t)); }
  void operator()(int64_t v) { put_int(out, 3, v), type(AttributeProto::Type::Int); }
  void operator()(float v) { put_float(out, 2, v), type(AttributeProto::Type::Float); }
  void operator()(const std::string& v) { put_bytes(out, 4, v), type(AttributeProto::Type::String); }
  void operator()(const Ints& list) {
    for (const int64_t v : list) put_int(out, 8, v);
    type(AttributeProto::Type::Ints);
  }
  void operator()(const std::vector<float>& list) {
    for (const float v : list) put_float(out, 7, v);
    type(AttributeProto::Type::Floats);
  }
  void operator()(const std::vector<std::string>& list) {
    for (const std::string& v : list) put_bytes(out, 9, v);
    type(AttributeProto::Type::Strings);
  }
  void operator()(const Tensor& tensor) {
    std::string proto;
    put_tensor_head(proto, "", tensor);
    put_bytes(proto, 9, raw_data_of(tensor));
    put_bytes(out, 5, proto), type(AttributeProto::Type::Tensor);
  }
};

std::string value_info(const std::string& name, DType dtype, const Shape& shape) {
  std::string dims;
  for (const Dim& dim : shape) {
    std::string one;
    if (dim.is_constant())
      put_int(one, 1, dim.value());
    else
      put_bytes(one, 2, dim.as_symbol().value_or(dim.to_string()));
    put_bytes(dims, 1, one);
  }
  std::string tensor, type, info;
  put_int(tensor, 1, static_cast<int64_t>(dtype));
  put_bytes(tensor, 2, dims);
  put_bytes(type, 1, tensor);
  put_bytes(info, 1, name);
  put_bytes(info, 2, type);
  return info;
}

// The IR version that came with an opset.
int64_t ir_version_of(int64_t opset) {
  return opset <= 22 ? 10 : opset <= 23 ? 11 : opset <= 24 ? 12 : opset <= 27 ? 13 : 14;
}

}  // namespace

std::string ModelState::unique(std::string_view name) {
  std::string wanted(name.empty() ? "value" : name), free = wanted;
  for (int i = 1; !names.insert(free).second; ++i) free = wanted + "_" + std::to_string(i);
  return free;
}

void GraphWriter::node(const NodeText& node) {
  std::string proto;
  for (const std::string& input : node.inputs) put_bytes(proto, 1, input);
  for (const std::string& output : node.outputs) put_bytes(proto, 2, output);
  put_bytes(proto, 3, node.name);
  put_bytes(proto, 4, node.op_type);
  for (const auto& [name, value] : node.attributes) {
    std::string attribute;
    put_bytes(attribute, 1, name);
    std::visit(PutAttribute{attribute}, value);
    put_bytes(proto, 5, attribute);
  }
  for (const BodyAttribute& body : node.bodies) {
    std::string attribute;
    put_bytes(attribute, 1, body.name);
    put_bytes(attribute, 6, body.graph);
    put_int(attribute, 20, static_cast<int64_t>(AttributeProto::Type::Graph));
    put_bytes(proto, 5, attribute);
  }
  put_bytes(nodes_, 1, proto);
}

void GraphWriter::put_tensor(std::string& out, const std::string& name, const Tensor& tensor) {
  put_tensor_head(out, name, tensor);
  const std::string_view bytes = raw_data_of(tensor);
  if (!model_.weights_apart || bytes.size() <= kSmallTensor) return put_bytes(out, 9, bytes);
  size_t offset = model_.data.empty() ? 0 : model_.data_offsets.back() + model_.data.back().bytes().size();
  offset = (offset + kPageBytes - 1) / kPageBytes * kPageBytes;
  model_.data.push_back(tensor);
  model_.data_offsets.push_back(offset);
  const std::vector<std::pair<std::string, std::string>> entries = {{"location", model_.data_file},
                                                                    {"offset", std::to_string(offset)},
                                                                    {"length", std::to_string(bytes.size())}};
  for (const auto& [key, value] : entries) {
    std::string entry;
    put_bytes(entry, 1, key);
    put_bytes(entry, 2, value);
    put_bytes(out, 13, entry);
  }
  put_int(out, 14, 1);  // the data's location: external
}

void GraphWriter::constant(const std::string& name, const Tensor& tensor) {
  std::string proto;
  put_tensor(proto, name, tensor);
  put_bytes(constants_, 5, proto);
}

void GraphWriter::input(const std::string& name, DType dtype, const Shape& shape) {
  put_bytes(inputs_, 11, value_info(name, dtype, shape));
}
void GraphWriter::output(const std::string& name, DType dtype, const Shape& shape) {
  put_bytes(outputs_, 12, value_info(name, dtype, shape));
}

std::string GraphWriter::finish(std::string_view name) {
  std::string graph = std::move(nodes_);
  put_bytes(graph, 2, name.empty() ? "network" : name);
  graph += constants_;
  graph += inputs_;
  graph += outputs_;
  constants_.clear();
  return graph;
}

std::string model_bytes(const ModelState& model, std::string_view graph) {
  std::string bytes, opset;
  put_int(bytes, 1, ir_version_of(model.opset));
  put_bytes(bytes, 2, "Lathe");
  put_bytes(bytes, 3, version());
  put_bytes(bytes, 7, graph);
  put_int(opset, 2, model.opset);
  put_bytes(bytes, 8, opset);
  return bytes;
}

}  // namespace lathe::onnx
