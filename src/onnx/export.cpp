// SPDX-License-Identifier: Apache-2.0
#include "onnx/export.h"

#include <algorithm>

#include "base/file.h"
#include "onnx/export_node.h"

namespace lathe {

namespace onnx {

NodeExport::NodeExport(GraphExport& graph, const Node& node)
    : graph_(graph), node_(node), op_inputs_(node.op_input_count()) {
  for (const ValueId id : node.outputs) {
    const bool stored = id != kNoValue && graph.graph().value(id).is_stored_quantized();
    results_.push_back(stored ? graph.model().unique(graph.name_of(id) + "_before_quantization")
                              : graph.name_of(id));
  }
  numbers_ = results_;
  if (!node.epilogue.empty()) results_[0] = graph.model().unique(node.name + "_before_epilogue");
}

Names NodeExport::all_inputs() const {
  Names names;
  for (size_t i = 0; i < op_inputs_; ++i) names.push_back(in(i));
  return names;
}

void NodeExport::write() {
  try {
    std::visit(*this, node_.op);
  } catch (Error& error) {
    error.add_context("node '" + node_.name + "' (" + std::string(op_display_name(node_.op)) + ")")
        .set_node(node_.name, op_display_name(node_.op));
    throw;
  }
  if (!node_.epilogue.empty()) write_epilogue();
  quantize_results();
}

void NodeExport::quantize_results() {
  for (size_t i = 0; i < node_.outputs.size(); ++i) {
    const ValueId id = node_.outputs[i];
    if (id == kNoValue || !graph_.graph().value(id).is_stored_quantized()) continue;
    const Names grid = graph_.grid_of(id);
    const int64_t axis = std::max<int64_t>(0, graph_.graph().value(id).quantization->axis);
    node("QuantizeLinear", {numbers_[i], grid[0], grid[1]}, {{"axis", axis}}, 1, graph_.name_of(id));
  }
}

void NodeExport::write_epilogue() {
  const DType to = graph_.graph().value(node_.outputs[0]).number_type();
  Names values = {results_[0]};
  std::vector<DType> types = {to};
  for (size_t i = op_inputs_; i < node_.inputs.size(); ++i) {
    values.push_back(graph_.number_of(node_.inputs[i]));
    types.push_back(graph_.graph().value(node_.inputs[i]).number_type());
  }
  program(node_.epilogue, values, types, to, numbers_[0]);
}

namespace {

// The opset that has a type, and an operator for it.
int64_t opset_for(std::string_view op_type, DType dtype) {
  const bool narrow = dtype == DType::Float16 || dtype == DType::BFloat16;
  if (narrow && op_type == "Celu") return 28;
  if (narrow && op_type == "Range") return 27;
  if (is_integer(dtype) && dtype_info(dtype).is_signed && op_type == "BitShift") return 28;
  switch (dtype) {
    case DType::BFloat16:
      if (op_type == "OneHot" || op_type == "ReverseSequence" || op_type == "Unique") return 28;
      return op_type == "TopK" ? 24 : 22;
    case DType::Float4E2M1:
      return 23;
    case DType::Float8E8M0:
      return 24;
    case DType::UInt2:
    case DType::Int2:
      return 25;
    default:
      return 1;
  }
}

}  // namespace

int64_t NodeExport::opset_of_types(std::string_view op_type) const {
  int64_t opset = 1;
  for (const auto* ids : {&node_.inputs, &node_.outputs})
    for (const ValueId id : *ids)
      if (id != kNoValue) opset = std::max(opset, opset_for(op_type, graph_.graph().value(id).dtype));
  return opset;
}

void NodeExport::result(std::string_view op_type, Names inputs, Attributes attributes, int64_t since) {
  Names outputs = results_;
  while (outputs.back().empty()) outputs.pop_back();
  graph_.node({op_type, node_.name, std::move(inputs), outputs, std::move(attributes), {}},
              std::max(since, opset_of_types(op_type)));
}

std::string NodeExport::node(std::string_view op_type, Names inputs, Attributes attributes, int64_t since,
                             std::string name) {
  if (name.empty()) name = graph_.model().unique(node_.name + "/" + std::string(op_type));
  graph_.node({op_type, node_.name, std::move(inputs), {name}, std::move(attributes), {}},
              std::max(since, opset_of_types(op_type)));
  return name;
}

std::string NodeExport::step(std::string_view op_type, Names inputs, Attributes attributes, int64_t since) {
  return node(op_type, std::move(inputs), std::move(attributes), since, "");
}

std::string NodeExport::dims_or_input(const std::optional<Shape>& dims, size_t i) {
  return dims ? graph_.dims(*dims) : in(i);
}

void export_node(GraphExport& graph, const Node& node) {
  NodeExport(graph, node).write();
}

}  // namespace onnx

namespace {

constexpr int64_t kLargestModel =
    (int64_t{1} << 31) - (int64_t{1} << 24);  // protobuf's limit, less room for nodes

int64_t weight_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const NodeId id : graph.order()) {
    for (const ValueId input : graph.node(id).inputs)
      if (input != kNoValue) bytes += static_cast<int64_t>(graph.value(input).constant.bytes().size());
    for (const Body& body : bodies_of(graph.node(id).op)) bytes += weight_bytes(body.graph());
  }
  return bytes;
}

std::string model_of(const Graph& graph, onnx::ModelState& model) {
  const std::string bytes = onnx::GraphExport(graph, model).write();
  return onnx::model_bytes(model, bytes);
}

void write_data(const onnx::ModelState& model, FileWriter& file) {
  size_t written = 0;
  for (size_t i = 0; i < model.data.size(); ++i) {
    file.write(std::string(model.data_offsets[i] - written, '\0'));
    file.write(model.data[i].bytes());
    written = model.data_offsets[i] + model.data[i].bytes().size();
  }
}

}  // namespace

std::string export_onnx(const Graph& graph) {
  if (weight_bytes(graph) > kLargestModel)
    throw_input_error("an ONNX model in memory holds less than 2 GB of weights; write it to a file");
  onnx::ModelState model;
  return model_of(graph, model);
}

void export_onnx(const Graph& graph, const std::filesystem::path& path) {
  onnx::ModelState model;
  model.weights_apart = weight_bytes(graph) > kLargestModel;
  model.data_file = path.filename().string() + ".data";
  const std::string bytes = model_of(graph, model);
  if (model.weights_apart)
    write_file_atomically(path.string() + ".data", [&](FileWriter& file) { write_data(model, file); });
  write_file_atomically(path, bytes);
}

}  // namespace lathe
