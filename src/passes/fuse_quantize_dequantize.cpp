// SPDX-License-Identifier: Apache-2.0
//
//   DequantizeLinear(QuantizeLinear(x, s, z), s, z)  ->  Clip[low s, high s](x), RoundTo[s](1)     one scale
//                                          ->  Div by s, Round, Clip, Mul by s     one scale per channel
//   the same in float8e4m3fn               ->  RoundToE4M3[s](0)                    one scale
//                                          ->  Div by s, RoundToE4M3[1], Mul by s  one scale per channel
//
// where low and high are the ends of the integer type minus z. The zero point cancels: what is left is the
// nearest multiple of s, s times clamp(round(x / s), low, high). With one scale the clamp may come first:
// round(x / s) grows with x, and gives high for high s, because the two roundings on the way are far below
// half a step (up to 16 bits). The result is that of the two nodes to the last bit. Only NaN, for which
// integers have no place, stays NaN.
//
// Numbers of E4M3 have no zero point and saturate at 448.
//
// Must not fire when scale or zero point are not constant or differ between the two nodes, for blocks of
// scales, for other kinds of float8 or one that does not saturate, for scales that are not positive normal
// numbers, and when the result has another type than x.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// The multiples that one scale has.
struct Steps {
  float scale = 1, low = 0, high = 0;
  bool operator==(const Steps&) const = default;
};

std::optional<std::pair<double, double>> integer_range(DType type) {
  switch (type) {
    case DType::Int2:
      return std::pair(-2.0, 1.0);
    case DType::UInt2:
      return std::pair(0.0, 3.0);
    case DType::Int4:
      return std::pair(-8.0, 7.0);
    case DType::UInt4:
      return std::pair(0.0, 15.0);
    case DType::Int8:
      return std::pair(-128.0, 127.0);
    case DType::UInt8:
      return std::pair(0.0, 255.0);
    case DType::Int16:
      return std::pair(-32768.0, 32767.0);
    case DType::UInt16:
      return std::pair(0.0, 65535.0);
    case DType::Float8E4M3FN:
      return std::pair(-double{kMostE4M3}, double{kMostE4M3});
    default:
      return std::nullopt;
  }
}

bool is_usable(const Steps& steps) {
  constexpr float kSmallest = std::numeric_limits<float>::min();
  return steps.scale >= kSmallest && std::isfinite(steps.low * steps.scale) &&
         std::isfinite(steps.high * steps.scale);
}

// The elements of a constant with one dim at most; nullopt for anything else.
std::optional<std::vector<double>> vector_constant(const Graph& graph, ValueId value) {
  const Tensor& tensor = graph.value(value).constant;
  if (!tensor || !tensor.has_bytes() || tensor.rank() > 1 || tensor.size() == 0) return std::nullopt;
  return tensor.to_doubles();
}

// One entry, or one per index of the axis; nullopt when the node does not quantise with constants.
std::optional<std::vector<Steps>> quantization_of(const Graph& graph, const Node& node, DType integer) {
  const auto range = integer_range(integer);
  const auto scales = vector_constant(graph, node.inputs[1]);
  if (!range || !scales) return std::nullopt;
  std::vector<double> zeros = {0};
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    const auto given = vector_constant(graph, node.inputs[2]);
    if (!given || (given->size() != 1 && given->size() != scales->size())) return std::nullopt;
    zeros = *given;
  }
  std::vector<Steps> all;
  for (size_t i = 0; i < scales->size(); ++i) {
    const double zero = zeros[zeros.size() == 1 ? 0 : i];
    all.push_back({static_cast<float>((*scales)[i]), static_cast<float>(range->first - zero),
                   static_cast<float>(range->second - zero)});
  }
  return std::all_of(all.begin(), all.end(), is_usable) ? std::optional(all) : std::nullopt;
}

bool same_axis(const QuantizeLinear& q, const DequantizeLinear& dq, size_t rank) {
  const auto normal = [&](int64_t axis) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; };
  return q.block_size == 0 && dq.block_size == 0 && normal(q.axis) == normal(dq.axis);
}

PointwiseProgram one_scale(const Steps& steps, bool floats) {
  PointwiseProgram program;
  program.input_count = 1;
  if (floats) {
    program.steps.push_back({PointwiseCode::RoundToE4M3, steps.scale, 0, {0}});
    return program;
  }
  program.steps.push_back({PointwiseCode::Clip, steps.low * steps.scale, steps.high * steps.scale, {0}});
  program.steps.push_back({PointwiseCode::RoundTo, steps.scale, 0, {1}});
  return program;
}

// Adds constants that hold a member of each entry along `axis`, and the program that reads them.
class PerChannel {
 public:
  PerChannel(Graph& graph, const std::vector<Steps>& all, size_t trailing, std::string name)
      : editor_(graph), all_(all), name_(std::move(name)) {
    extents_.assign(trailing + 1, 1);
    extents_[0] = static_cast<int64_t>(all.size());
  }

  PointwiseProgram program(std::vector<ValueId>& inputs, bool floats) {
    const bool one_range = std::all_of(all_.begin(), all_.end(), [&](const Steps& s) {
      return s.low == all_[0].low && s.high == all_[0].high;
    });
    inputs.push_back(constant(&Steps::scale, "_scale"));
    if (floats) return PointwiseProgram::parse("Div(0,1) RoundToE4M3[1](2) Mul(3,1)", 2);
    if (one_range) {
      PointwiseProgram program = PointwiseProgram::parse("Div(0,1) Round(2)", 2);
      program.steps.push_back({PointwiseCode::Clip, all_[0].low, all_[0].high, {3}});
      program.steps.push_back({PointwiseCode::Mul, 0, 0, {4, 1}});
      return program;
    }
    inputs.push_back(constant(&Steps::low, "_low"));
    inputs.push_back(constant(&Steps::high, "_high"));
    return PointwiseProgram::parse("Div(0,1) Round(4) Max(5,2) Min(6,3) Mul(7,1)", 4);
  }

 private:
  ValueId constant(float Steps::*member, const std::string& suffix) {
    std::vector<float> values;
    for (const Steps& steps : all_) values.push_back(steps.*member);
    return editor_.add_constant(name_ + suffix, Tensor::from<float>(extents_, values));
  }

  GraphEditor editor_;
  const std::vector<Steps>& all_;
  std::string name_;
  Extents extents_;
};

bool fuse_quantize_dequantize_at(Graph& graph, PassContext& context, NodeId last) {
  const auto* dq = plain_op<DequantizeLinear>(graph, last);
  const auto* q = dq ? producer_op<QuantizeLinear>(graph, graph.node(last).inputs[0]) : nullptr;
  if (!q) return false;
  const NodeId first = graph.value(graph.node(last).inputs[0]).producer;
  const ValueId x = graph.node(first).inputs[0];
  const size_t rank = graph.value(x).shape.size();
  const auto there = quantization_of(graph, graph.node(first), q->to);
  const auto back = quantization_of(graph, graph.node(last), q->to);
  if (!there || there != back || !same_float_type(graph, {x, result_of(graph, last)})) return false;
  if (there->size() > 1 && (rank == 0 || !same_axis(*q, *dq, rank))) return false;
  // A zero point would be another range.
  const bool floats = q->to == DType::Float8E4M3FN;
  const auto has_no_zero = [](const Steps& steps) { return steps.high == kMostE4M3; };
  if (floats && (!q->saturate || !std::all_of(there->begin(), there->end(), has_no_zero))) return false;
  if (q->block_size != 0 || dq->block_size != 0 || !context.may_change()) return false;
  std::vector<ValueId> inputs = {x};
  PointwiseProgram program;
  if (there->size() == 1) {
    program = one_scale(there->front(), floats);
  } else {
    const int64_t axis = q->axis < 0 ? q->axis + static_cast<int64_t>(rank) : q->axis;
    const std::string name = graph.value(graph.node(last).inputs[1]).name;
    program = PerChannel(graph, *there, rank - 1 - static_cast<size_t>(axis), name).program(inputs, floats);
  }
  replace_nodes(graph, context, {first, last}, PointwiseChain{std::move(program)}, std::move(inputs));
  return true;
}

}  // namespace

bool fuse_quantize_dequantize(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= fuse_quantize_dequantize_at(graph, context, id);
  return changed;
}

}  // namespace lathe
