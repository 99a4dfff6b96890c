// SPDX-License-Identifier: Apache-2.0
#include "report/sum_type.h"

namespace lathe {
namespace {

template <class... Ops>
bool is_any_of(const Op& op) {
  return (std::holds_alternative<Ops>(op) || ...);
}

bool multiplies(const Op& op) {
  return is_any_of<Conv, ConvTranspose, MatMul, FeedForward, Attention>(op);
}

bool sums(const Op& op) {
  if (const auto* pool = std::get_if<Pool>(&op)) return pool->kind != PoolKind::Max;
  if (const auto* reduce = std::get_if<Reduce>(&op))
    return reduce->kind != ReduceKind::Max && reduce->kind != ReduceKind::Min;
  return multiplies(op) ||
         is_any_of<DepthwiseBlock, SqueezeExcite, Softmax, LayerNorm, GroupNorm, Lrn, CumSum, RNN, GRU, LSTM,
                   LinearAttention, DeformConv, Col2Im, DFT, STFT>(op);
}

// The third way of DepthwiseBlock's arithmetic (backend/cpu/conv/depthwise_block.cpp).
bool sums_in_fp16(const Op& op, const Tactic& tactic) {
  return std::holds_alternative<DepthwiseBlock>(op) && tactic.params.get("arithmetic", 0) == 2;
}

}  // namespace

DType sum_type(const Graph& graph, const Node& node, const Tactic& tactic) {
  if (tactic.last_resort || !sums(node.op) || node.inputs.empty() || node.inputs[0] == kNoValue)
    return DType::Undefined;
  if (sums_in_fp16(node.op, tactic)) return DType::Float16;
  const Value& x = graph.value(node.inputs[0]);
  if (x.dtype == DType::Float64) return DType::Float64;
  if (is_float(x.dtype)) return DType::Float32;
  if (x.is_stored_quantized()) return multiplies(node.op) ? DType::Int32 : DType::Float32;
  return x.dtype;
}

}  // namespace lathe
