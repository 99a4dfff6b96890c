// SPDX-License-Identifier: Apache-2.0
//
// Two products with a function between them mean what they mean one after the other: shapes, results and
// operations come from MatMul, product by product.
#include "ops/families.h"

namespace lathe {

namespace {

constexpr size_t kFirst = FeedForward::kFirst, kSecond = FeedForward::kSecond;

// Of a list of the layer's inputs, those of the first product: data, weights, what `hidden` reads.
template <class T>
std::vector<T> of_first(std::span<const T> inputs) {
  std::vector<T> own(inputs.begin(), inputs.begin() + kSecond);
  own.insert(own.end(), inputs.begin() + FeedForward::kOperands, inputs.end());
  return own;
}

std::string first_name(std::string_view name) {
  return std::string(name) + ", first product";
}

std::vector<ResultInfo> infer_feed_forward(const FeedForward& op, const InferContext& context) {
  context.input(kSecond);
  const size_t operands = op.hidden.empty() ? 0 : static_cast<size_t>(op.hidden.input_count) - 1;
  if (context.inputs.size() != FeedForward::kOperands + operands)
    throw_input_error("needs " + std::to_string(operands) + " operands of its function, has " +
                      std::to_string(context.inputs.size() - FeedForward::kOperands));
  for (const size_t weights : {kFirst, kSecond})
    if (context.rank(weights) != 2)
      throw_input_error("weights must be matrices, input " + std::to_string(weights) + " has shape " +
                        to_string(context.input(weights).shape));
  const std::vector<const Value*> first = of_first(context.inputs);
  const std::string name = first_name(context.node_name);
  const ResultInfo hidden = infer(MatMul{.transpose_b = op.transpose_first}, op.hidden, {name, first, 1})[0];
  const Value value{.name = name, .dtype = hidden.dtype, .shape = hidden.shape};
  const Value* second[] = {&value, context.inputs[kSecond]};
  return infer(MatMul{.transpose_b = op.transpose_second}, {}, {context.node_name, second, 1});
}

std::vector<Tensor> evaluate_feed_forward(const FeedForward& op, const EvaluateContext& context) {
  const DType type = context.input(0).dtype();
  Node node;
  node.name = first_name("feed-forward");
  node.op = MatMul{.transpose_b = op.transpose_first};
  node.epilogue = op.hidden;
  EvaluateContext own = context;
  own.output_count = 1;
  const std::vector<Tensor> first = of_first(context.inputs);
  own.inputs = first;
  const std::vector<Tensor> second = {evaluate_node(node, own, type)[0], context.input(kSecond)};
  node = Node{};
  node.name = "feed-forward, second product";
  node.op = MatMul{.transpose_b = op.transpose_second};
  own.inputs = second;
  return evaluate_node(node, own, type);
}

double feed_forward_flops(const Op& any, const CostContext& context) {
  const auto& op = std::get<FeedForward>(any);
  Extents hidden = context.outputs[0];
  if (hidden.empty() || context.inputs[kFirst].size() != 2) return 0;
  hidden.back() = context.inputs[kFirst][op.transpose_first ? 0 : 1];
  Node node;
  node.op = MatMul{.transpose_b = op.transpose_first};
  node.epilogue = op.hidden;
  const std::vector<Extents> first = {context.inputs[0], context.inputs[kFirst]}, between = {hidden};
  const double first_flops = node_flops(node, {first, between});
  node = Node{};
  node.op = MatMul{.transpose_b = op.transpose_second};
  const std::vector<Extents> second = {hidden, context.inputs[kSecond]};
  return first_flops + node_flops(node, {second, context.outputs});
}

}  // namespace

std::vector<OpDef> feed_forward_ops() {
  return {op_def<FeedForward, infer_feed_forward, evaluate_feed_forward>(feed_forward_flops)};
}

}  // namespace lathe
