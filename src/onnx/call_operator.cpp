// SPDX-License-Identifier: Apache-2.0
#include "onnx/call_operator.h"

#include "onnx/import_plugin.h"
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

using Type = AttributeProto::Type;

// The proto points into the attribute, which must outlive it.
struct ToProto {
  AttributeProto& proto;
  void operator()(int64_t v) { proto.type = Type::Int, proto.i = v; }
  void operator()(float v) { proto.type = Type::Float, proto.f = v; }
  void operator()(const std::string& v) { proto.type = Type::String, proto.s = v; }
  void operator()(const Ints& v) { proto.type = Type::Ints, proto.ints = v; }
  void operator()(const std::vector<float>& v) { proto.type = Type::Floats, proto.floats = v; }
  void operator()(const std::vector<std::string>& v) {
    proto.type = Type::Strings, proto.strings = {v.begin(), v.end()};
  }
  void operator()(const Tensor& v) {
    proto.type = Type::Tensor;
    proto.t = std::make_shared<TensorProto>();
    proto.t->data_type = static_cast<int32_t>(v.dtype());
    proto.t->dims = v.extents();
    proto.t->raw_data = v.bytes();
  }
};

NodeProto to_proto(const OperatorCall& call, const std::vector<std::string>& outputs) {
  const size_t colons = call.op_type.find("::");
  const bool has_domain = colons != std::string_view::npos;
  NodeProto node{.op_type = has_domain ? call.op_type.substr(colons + 2) : call.op_type,
                 .domain = has_domain ? call.op_type.substr(0, colons) : "",
                 .outputs = {outputs.begin(), outputs.end()}};
  for (const auto& [name, value] : call.attributes) {
    AttributeProto& attribute = node.attributes.emplace_back();
    attribute.name = name;
    std::visit(ToProto{attribute}, value);
  }
  return node;
}

const Importer* find_importer_of(const NodeProto& node) {
  return find_importer(node.domain, node.op_type, node.domain.empty() ? kLatestOpset : 1);
}

const Importer& importer_of(const NodeProto& node) {
  const std::string_view op_type = node.op_type;
  if (const Importer* importer = find_importer_of(node)) return *importer;
  const bool has_bodies = op_type == "If" || op_type == "Loop" || op_type == "Scan";
  throw_unsupported(has_bodies ? "its bodies are no attributes: call if_else, loop or scan"
                               : "there is no such operator; docs/operators.md lists those that there are");
}

}  // namespace

Values call_operator(GraphBuilder& builder, const OperatorCall& call) {
  std::vector<std::string> outputs;
  for (size_t i = 0; i < call.outputs; ++i) outputs.push_back(std::to_string(i));
  const NodeProto proto = to_proto(call, outputs);
  TensorSource tensors(nullptr, {});
  try {
    if (call.op_type == "Identity" && call.inputs.size() == 1)
      return {builder.add_identity(call.name, call.inputs[0])};
    NodeImport node({proto, call.name, kLatestOpset, call.inputs, nullptr, tensors, builder});
    const bool is_custom =
        call.plugins != nullptr && find_importer_of(proto) == nullptr && has_plugin(proto, *call.plugins);
    Values results = is_custom ? import_plugin(node, proto, *call.plugins) : importer_of(proto).import(node);
    results.resize(std::max(results.size(), call.outputs), kNoValue);
    return results;
  } catch (Error& error) {
    error.add_context("layer '" + call.name + "' (" + std::string(call.op_type) + ")")
        .set_node(call.name, call.op_type);
    throw;
  }
}

}  // namespace lathe::onnx
