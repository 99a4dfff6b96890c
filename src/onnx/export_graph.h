// SPDX-License-Identifier: Apache-2.0
//
// One graph, or one body of an operator, on its way into a model: names of its values, and dims as tensors.
// Internal to export.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "onnx/model_writer.h"

namespace lathe::onnx {

class GraphExport {
 public:
  // `names` are those of the graph's inputs where it is a body, whose inputs may stand for values of the
  // graph around it.
  GraphExport(const Graph& graph, ModelState& model) : graph_(graph), writer_(model) {}
  GraphExport(const Graph& graph, const GraphExport& around, const Names& input_names);

  const Graph& graph() const { return graph_; }
  ModelState& model() const { return writer_.model(); }
  // Writes all of the graph. `own_inputs`: how many of its inputs are inputs of the GraphProto; all without
  // it.
  std::string write(std::optional<size_t> own_inputs = std::nullopt);

  std::string name_of(ValueId id) const;  // "" for kNoValue
  // The tensor of a value's numbers: dequantized where integers are stored.
  std::string number_of(ValueId id);
  // The scale and zero point of a stored value.
  Names grid_of(ValueId id);
  void node(GraphWriter::NodeText text, int64_t since);
  std::string constant(std::string_view name, const Tensor& tensor);
  std::string ints(const Ints& values);
  std::string scalar(double value, DType dtype);
  // An int64 tensor with one element per dim.
  std::string dims(const Shape& shape);

 private:
  // Where a symbol's value can be read: a dim of a value.
  struct Place {
    std::string value;
    int64_t axis = 0;
  };
  void name_value(ValueId id, std::string name);
  const Place* find_symbol(std::string_view symbol) const;
  std::string dim(const Dim& dim);
  std::string symbol(const std::string& name);
  std::string arithmetic(std::string_view op_type, const std::string& a, const std::string& b);

  const Graph& graph_;
  GraphWriter writer_;
  const GraphExport* around_ = nullptr;
  std::map<ValueId, std::string> names_, numbers_;
  std::map<std::string, Place, std::less<>> symbols_;
  std::map<std::string, std::string> dims_;  // text of a dim -> the tensor that holds it
};

// Writes the nodes that one node of a graph stands for.
void export_node(GraphExport& graph, const Node& node);

}  // namespace lathe::onnx
