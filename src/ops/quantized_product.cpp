// SPDX-License-Identifier: Apache-2.0
#include "ops/quantized_product.h"

#include <utility>
#include "ir/block_grid.h"

namespace lathe {
namespace {

// The axes of the second operand along which scales may differ, and of the result to which they belong.
std::optional<std::pair<int64_t, int64_t>> channel_axes(const Op& op, const Value& weights,
                                                        size_t result_rank) {
  if (std::holds_alternative<Conv>(op)) return std::pair<int64_t, int64_t>{0, 1};
  const auto* product = std::get_if<MatMul>(&op);
  const auto rank = static_cast<int64_t>(weights.shape.size());
  if (!product || rank < 2) return std::nullopt;
  return std::pair{product->transpose_b ? rank - 2 : rank - 1, static_cast<int64_t>(result_rank) - 1};
}

// q - zero, as numbers that hold every sum of their products.
Tensor centred(const Tensor& numbers, const Quantization& grid) {
  Quantization unit = grid;
  unit.scales.assign(grid.scales.size(), 1);
  const Tensor integers = dequantize(quantize(numbers, grid), unit);
  return Tensor::from_doubles(DType::Float64, numbers.extents(), integers.to_doubles());
}

Tensor scaled(const Tensor& sums, const Quantization& x, const Quantization& w, size_t axis,
              const std::vector<double>& bias) {
  size_t inner = 1;
  for (size_t d = axis + 1; d < sums.extents().size(); ++d) inner *= static_cast<size_t>(sums.extents()[d]);
  const auto channels = static_cast<size_t>(sums.extents()[axis]);
  std::vector<double> values = sums.to_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = i / inner % channels;
    values[i] *= static_cast<double>(x.scale()) * static_cast<double>(w.scale(channel));
    if (!bias.empty()) values[i] += bias[channel];
  }
  return Tensor::from_doubles(DType::Float32, sums.extents(), values);
}

}  // namespace

std::vector<Tensor> evaluate_quantized_product(const Graph& graph, const Node& node,
                                               const EvaluateContext& context) {
  if (!std::holds_alternative<Conv>(node.op) && !std::holds_alternative<MatMul>(node.op)) return {};
  const Value &x = graph.value(node.inputs[0]), &w = graph.value(node.inputs[1]);
  const size_t rank = graph.value(node.outputs[0]).shape.size();
  const auto axes = channel_axes(node.op, w, rank);
  if (!x.is_stored_quantized() || !x.quantization->is_per_tensor() || !w.quantization || !axes || rank < 2 ||
      has_blocks(*w.quantization, w.shape))
    return {};
  if (!w.quantization->is_per_tensor() && w.quantization->axis != axes->first) return {};
  const std::vector<Tensor> integers = {centred(context.input(0), *x.quantization),
                                        centred(context.input(1), *w.quantization)};
  EvaluateContext sums_context = context;
  sums_context.inputs = integers;
  const Tensor sums = find_op_def(node.op).evaluate(node.op, sums_context)[0];
  const bool has_bias = node.op_input_count() > 2 && context.has(2);
  std::vector<Tensor> operands = {scaled(sums, *x.quantization, *w.quantization,
                                         static_cast<size_t>(axes->second),
                                         has_bias ? context.input(2).to_doubles() : std::vector<double>{})};
  if (node.epilogue.empty()) return operands;
  for (size_t i = node.op_input_count(); i < context.inputs.size(); ++i)
    operands.push_back(context.inputs[i]);
  Node tail;
  tail.name = node.name;
  tail.op = PointwiseChain{node.epilogue};
  EvaluateContext tail_context = context;
  tail_context.inputs = operands;
  return evaluate_node(tail, tail_context, graph.value(node.outputs[0]).number_type());
}

}  // namespace lathe
