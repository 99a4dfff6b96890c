// SPDX-License-Identifier: Apache-2.0
//
// A depthwise convolution with its pointwise neighbours means what its parts mean one after the other:
// shapes, results and operations come from Conv, part by part.

#include "ops/depthwise_block.h"

#include "ops/families.h"

namespace lathe {

namespace {

constexpr const char* kPartNames[] = {"expand", "depthwise", "project"};

void require_parts(const DepthwiseBlock& op, const InferContext& context) {
  context.input(DepthwiseBlock::kDepthwise);
  if (context.rank(0) != 4)
    throw_input_error("needs data (N, C, H, W), has " + to_string(context.input(0).shape));
  if (op.kernel.size() != 2) throw_input_error("needs a kernel of two extents");
  for (const size_t part : {DepthwiseBlock::kExpand, DepthwiseBlock::kDepthwise, DepthwiseBlock::kProject})
    if (context.has(part) && !context.input(part).shape[0].is_constant())
      throw_input_error("the weights must have constant shapes");
  for (const PointwiseProgram* program : {&op.expand_epilogue, &op.depthwise_epilogue})
    if (!program->empty() && program->input_count != 1)
      throw_input_error("a program between two convolutions has one input, not " +
                        std::to_string(program->input_count));
}

std::vector<ResultInfo> infer_block(const DepthwiseBlock& op, const InferContext& context) {
  require_parts(op, context);
  Value data = context.input(0);
  const auto has = [&](size_t i) { return context.has(i); };
  const int64_t channels = context.input(DepthwiseBlock::kDepthwise).shape[0].value();
  for (const BlockPart& part : block_parts(op, channels, has)) {
    const Value* inputs[] = {&data, context.inputs[part.weights],
                             has(part.weights + 1) ? context.inputs[part.weights + 1] : nullptr};
    const std::string name = std::string(context.node_name) + ", " + kPartNames[part.weights / 2];
    const ResultInfo result = infer(part.conv, part.epilogue, {name, inputs, 1})[0];
    data = Value{.name = name, .dtype = result.dtype, .shape = result.shape};
  }
  return {{data.dtype, data.shape}};
}

std::vector<Tensor> evaluate_block(const DepthwiseBlock& op, const EvaluateContext& context) {
  Tensor data = context.input(0);
  const DType type = data.dtype();
  const int64_t channels = context.input(DepthwiseBlock::kDepthwise).extents()[0];
  for (const BlockPart& part : block_parts(op, channels, [&](size_t i) { return context.has(i); })) {
    Node node;
    node.name = kPartNames[part.weights / 2];
    node.op = part.conv;
    node.epilogue = part.epilogue;
    const std::vector<Tensor> inputs = {
        data, context.input(part.weights),
        context.has(part.weights + 1) ? context.input(part.weights + 1) : Tensor()};
    EvaluateContext own = context;
    own.inputs = inputs;
    own.output_count = 1;
    data = evaluate_node(node, own, type)[0];
  }
  return {data};
}

// Sums over the parts. The depthwise result has the width and height of the layer's.
double block_flops(const Op& any, const CostContext& context) {
  const auto& op = std::get<DepthwiseBlock>(any);
  const auto has = [&](size_t i) {
    return context.inputs[i].size() == 4;
  };  // absent ones have no such extents
  const int64_t channels = context.inputs[DepthwiseBlock::kDepthwise][0];
  Extents data = context.inputs[0];
  double flops = 0;
  for (const BlockPart& part : block_parts(op, channels, has)) {
    const Extents& result = context.outputs[0];
    Extents next = {data[0], context.inputs[part.weights][0], data[2], data[3]};
    if (part.weights == DepthwiseBlock::kDepthwise) next = {data[0], channels, result[2], result[3]};
    Node node;
    node.op = part.conv;
    node.epilogue = part.epilogue;
    const std::vector<Extents> inputs = {data, context.inputs[part.weights]}, outputs = {next};
    flops += node_flops(node, {inputs, outputs});
    data = next;
  }
  return flops;
}

}  // namespace

std::vector<BlockPart> block_parts(const DepthwiseBlock& op, int64_t channels,
                                   const std::function<bool(size_t)>& has_input) {
  std::vector<BlockPart> parts;
  const Conv pointwise{.kernel = {1, 1}};
  const bool projects = has_input(DepthwiseBlock::kProject);
  if (has_input(DepthwiseBlock::kExpand))
    parts.push_back({pointwise, op.expand_epilogue, DepthwiseBlock::kExpand});
  parts.push_back(
      {Conv{op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, channels, op.auto_pad},
       projects ? op.depthwise_epilogue : PointwiseProgram{}, DepthwiseBlock::kDepthwise});
  if (projects) parts.push_back({pointwise, {}, DepthwiseBlock::kProject});
  return parts;
}

std::vector<OpDef> depthwise_block_ops() {
  return {op_def<DepthwiseBlock, infer_block, evaluate_block>(block_flops)};
}

}  // namespace lathe
