// SPDX-License-Identifier: Apache-2.0
//
// Layer by layer comparison, see layer_diff.h.

#include "reference/layer_diff.h"

#include "reference/interpreter.h"

namespace lathe {

namespace {

class Differ {
 public:
  Differ(const Graph& graph, std::span<const Tensor> inputs,
         const std::function<std::optional<Tensor>(ValueId)>& actual, ThreadPool* pool)
      : graph_(graph), inputs_(inputs), actual_(actual), symbols_(bind_symbols(graph, inputs)), pool_(pool) {}

  void compare_value(ValueId id, const Tensor& expected, const std::function<double(NodeId)>& error_factor) {
    learn_symbols(id, expected);
    const std::optional<Tensor> actual = actual_(id);
    if (!actual) return;
    const NodeId node = graph_.value(id).producer;
    LayerDifference difference{node, id, compare(*actual, expected)};
    std::vector<Tensor> operands;
    if (std::optional<Tensor> own = from_same_operands(node, id, operands)) {
      difference.local = compare(*actual, *own);
      std::vector<Extents> extents;
      for (const Tensor& operand : operands) extents.push_back(operand.extents());
      difference.limit = tolerance(actual->dtype(), reduction_length(graph_.node(node), extents),
                                   error_factor ? error_factor(node) : 1);
    }
    differences.push_back(std::move(difference));
  }

  std::vector<LayerDifference> differences;

 private:
  void learn_symbols(ValueId id, const Tensor& tensor) {
    const Shape& shape = graph_.value(id).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (const auto name = shape[d].as_symbol()) symbols_.emplace(*name, tensor.extents()[d]);
    }
  }

  std::optional<Tensor> operand(ValueId id) const {
    if (id == kNoValue) return Tensor();
    if (graph_.value(id).is_constant()) return graph_.value(id).constant;
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      if (graph_.inputs()[i] == id) return inputs_[i];
    }
    return actual_(id);
  }

  // What the oracle makes of the operands that the other side had.
  std::optional<Tensor> from_same_operands(NodeId id, ValueId output, std::vector<Tensor>& operands) const {
    const Node& node = graph_.node(id);
    for (ValueId input : node.inputs) {
      std::optional<Tensor> tensor = operand(input);
      if (!tensor) return std::nullopt;
      operands.push_back(std::move(*tensor));
    }
    const std::vector<Tensor> results = interpret_node(graph_, id, operands, symbols_, pool_);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == output) return results[i];
    }
    return std::nullopt;
  }

  const Graph& graph_;
  std::span<const Tensor> inputs_;
  const std::function<std::optional<Tensor>(ValueId)>& actual_;
  SymbolValues symbols_;
  ThreadPool* pool_;
};

}  // namespace

std::vector<LayerDifference> diff_layers(const Graph& graph, std::span<const Tensor> inputs,
                                         const std::function<std::optional<Tensor>(ValueId)>& actual,
                                         const std::function<double(NodeId)>& error_factor,
                                         ThreadPool* pool) {
  Differ differ(graph, inputs, actual, pool);
  const auto on_value = [&](ValueId id, const Tensor& expected) {
    differ.compare_value(id, expected, error_factor);
  };
  interpret(graph, inputs, {.pool = pool, .on_value = on_value});
  return std::move(differ.differences);
}

const LayerDifference* first_bad(std::span<const LayerDifference> differences) {
  for (const LayerDifference& difference : differences) {
    if (difference.bad()) return &difference;
  }
  return nullptr;
}

}  // namespace lathe
