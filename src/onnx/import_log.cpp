// SPDX-License-Identifier: Apache-2.0
#include "onnx/import_log.h"

#include <cctype>

namespace lathe::onnx {
namespace {

// ONNX's name of a type: FLOAT, FLOAT16, INT64.
std::string onnx_type(DType dtype) {
  if (dtype == DType::Float32) return "FLOAT";
  std::string name(dtype_name(dtype));
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// "(-1, 3, 224, 224)": a dim that is not known yet is -1.
std::string dims(const Graph& graph, ValueId id) {
  std::string text;
  for (const Dim& dim : graph.value(id).shape)
    text += (text.empty() ? "" : ", ") + std::to_string(dim.is_constant() ? dim.value() : -1);
  return "(" + text + ")";
}

std::string tensors(const Graph& graph, const std::vector<std::string_view>& names,
                    const std::vector<ValueId>& values) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < values.size(); ++i) {
    if (names[i].empty() || values[i] < 0) continue;  // absent, or no tensor
    text += "[" + std::string(names[i]) + " -> " + dims(graph, values[i]) + "[" +
            onnx_type(graph.value(values[i]).dtype) + "]], ";
  }
  return text;
}

}  // namespace

void ImportLog::input(const Graph& graph, const std::string& name, ValueId id) {
  verbose("Adding network input: " + name + " with dtype: " + std::string(dtype_name(graph.value(id).dtype)) +
          ", dimensions: " + dims(graph, id));
  verbose("Registering tensor: " + name + " for ONNX tensor: " + name);
}

void ImportLog::initializer(const std::string& name) {
  verbose("Importing initializer: " + name);
}

void ImportLog::node_begins(const Graph& graph, const NodeProto& node, const std::string& name,
                            const std::vector<ValueId>& values) {
  const std::string title = name + " [" + std::string(node.op_type) + "]";
  verbose("Parsing node: " + title);
  for (const std::string_view input : node.inputs)
    if (!input.empty()) verbose("Searching for input: " + std::string(input));
  verbose(title + " inputs: " + tensors(graph, node.inputs, values));
}

void ImportLog::node_ends(const Graph& graph, const NodeProto& node, const std::string& name,
                          const std::vector<ValueId>& values) {
  verbose("Registering layer: " + name + " for ONNX node: " + name);
  for (const std::string_view output : node.outputs)
    if (!output.empty())
      verbose("Registering tensor: " + std::string(output) + " for ONNX tensor: " + std::string(output));
  verbose(name + " [" + std::string(node.op_type) + "] outputs: " + tensors(graph, node.outputs, values));
}

void ImportLog::output_is_input(const std::string& name, const std::string& output) {
  observer_.log(
      Severity::Warning,
      "'" + name + "' is an input and an output of the model: the output is called '" + output + "'.");
}

void ImportLog::nodes_sorted(const std::string& prefix) {
  const std::string place = prefix.empty() ? "the model" : "'" + prefix.substr(0, prefix.size() - 1) + "'";
  note("The nodes of " + place + " are not in topological order: they were sorted.");
}

void ImportLog::output(const std::string& name) {
  verbose("Marking " + name + " as output: " + name);
}

}  // namespace lathe::onnx
