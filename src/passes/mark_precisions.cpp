// SPDX-License-Identifier: Apache-2.0
//
// For --bf16, --fp16 and --best: says on each FP32 layer in which other types it may compute and store. The
// tuner decides. What a caller demands of a layer (ir/layer_types.h) comes before the rules below.
//
// Products and what stands between them may be low: Conv, MatMul, Attention, pooling, batch and group norms,
// softmax, activations, data movement. Inside, accumulation, softmax, norms, pow and exp stay FP32 whatever
// is stored. Must not mark:
//   * LayerNorm in bfloat16: it stands on the residual stream of a transformer. What it stores in a low type
//     is added to every layer that follows, so the error grows with depth (BERT-base, bfloat16, relative L2:
//     1.1e-2 with low norms, 4.4e-3 without). Float16 rounds eight times finer, and on a GPU the casts and
//     wider rows round FP32 norms cost a fifth of BERT;
//   * functions whose results span many orders of magnitude (Exp, Pow, Log, Reciprocal, ... as layers of
//     their own);
//   * layers that turn data into decisions (TopK, ArgReduce, NonMaxSuppression, comparisons) or count
//     (CumSum, Range);
//   * Q/DQ, Cast, and everything that is not FP32: those types are the user's own;
//   * in bfloat16, what a later layer broadcasts: the gates of squeeze-and-excitation, scales per row. All
//     elements that meet such a value share its rounding error, which therefore does not average out in later
//     sums; a gate near 0.5 moves its whole channel by up to 0.4 % (EfficientNet-B0 with only these rounded,
//     relative L2: 1.9e-2 from the gates, 0.7e-2 from all feature maps together). Such values are few, so
//     that FP32 costs next to nothing;
//   * in a type that has no number for a constant that the layer reads or gives, directly or through
//     pointwise layers: the -3.4e38 of exported attention masks would become infinite, and a row that is
//     masked throughout not a number.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/broadcast.h"
#include "ir/edit.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool is_bounded(PointwiseCode code) {
  using C = PointwiseCode;
  switch (code) {
    case C::Exp:
    case C::Log:
    case C::Pow:
    case C::Div:
    case C::Reciprocal:
    case C::Rsqrt:
    case C::Square:
    case C::Tan:
    case C::Sinh:
    case C::Cosh:
    case C::Atanh:
    case C::Mod:
    case C::FMod:
    case C::Round:
    case C::Ceil:
    case C::Floor:
    case C::Sign:
      return false;
    default:
      return true;
  }
}

bool is_bounded(const PointwiseProgram& program) {
  for (const PointwiseStep& step : program.steps) {
    if (!is_bounded(step.code)) return false;
  }
  return true;
}

struct MayBeLow {
  bool operator()(const Pointwise& op) const { return is_bounded(op.code); }
  bool operator()(const PointwiseChain& op) const { return is_bounded(op.program); }
  bool operator()(const Conv&) const { return true; }
  bool operator()(const ConvTranspose&) const { return true; }
  bool operator()(const MatMul&) const { return true; }
  bool operator()(const Attention&) const { return true; }
  bool operator()(const Rotary&) const { return true; }
  bool operator()(const Softmax& op) const { return !op.log; }
  bool operator()(const BatchNorm&) const { return true; }
  bool operator()(const GroupNorm&) const { return true; }
  bool operator()(const LayerNorm&) const { return true; }
  bool operator()(const Pool&) const { return true; }
  bool operator()(const Reduce& op) const {
    return op.kind == ReduceKind::Mean || op.kind == ReduceKind::Max;
  }
  bool operator()(const SqueezeExcite&) const { return true; }  // its gates are FP32 inside
  bool operator()(const RNN&) const { return true; }            // so are sums, gates and cells of these
  bool operator()(const GRU&) const { return true; }
  bool operator()(const LSTM&) const { return true; }
  bool operator()(const ReshapeOp&) const { return true; }
  bool operator()(const Transpose&) const { return true; }
  bool operator()(const Concat&) const { return true; }
  bool operator()(const Split&) const { return true; }
  bool operator()(const Slice&) const { return true; }
  bool operator()(const Expand&) const { return true; }
  bool operator()(const Pad&) const { return true; }
  bool operator()(const Resize&) const { return true; }
  bool operator()(const Plugin&) const { return true; }  // it says which types it takes
  bool operator()(const Gather&) const { return true; }
  bool operator()(const DepthToSpace&) const { return true; }
  template <class Other>
  bool operator()(const Other&) const {
    return false;
  }
};

bool may_be_low(const Graph& graph, const Node& node) {
  if (!std::visit(MayBeLow{}, node.op) || !is_bounded(node.epilogue)) return false;
  for (ValueId output : node.outputs) {
    if (output != kNoValue && graph.value(output).dtype != DType::Float32) return false;
  }
  return !node.inputs.empty();
}

// Each output holds elements of the inputs, moved.
bool moves(const Op& op) {
  return std::holds_alternative<ReshapeOp>(op) || std::holds_alternative<Transpose>(op) ||
         std::holds_alternative<Slice>(op) || std::holds_alternative<Split>(op) ||
         std::holds_alternative<Concat>(op);
}

bool is_pointwise(const Op& op) {
  return std::holds_alternative<Pointwise>(op) || std::holds_alternative<PointwiseChain>(op);
}

double largest_finite(DType type) {
  if (type == DType::BFloat16) return 0x1.FEp127;
  if (type == DType::Float16) return 65504;
  return std::numeric_limits<float>::max();
}

// Of the finite numbers: infinity is itself in every type.
double largest_magnitude(std::span<const float> numbers) {
  float largest = 0;
  for (const float x : numbers) {
    const float magnitude = std::abs(x);
    if (magnitude > largest && magnitude <= std::numeric_limits<float>::max()) largest = magnitude;
  }
  return largest;
}

double largest_parameter(const PointwiseProgram& program) {
  double largest = 0;
  for (const PointwiseStep& step : program.steps)
    if (step.code == PointwiseCode::Linear)
      largest = std::max(largest, largest_magnitude(std::array{step.alpha, step.beta}));
  return largest;
}

// What the rules ask of a value, by ValueId.
class ValueFacts {
 public:
  explicit ValueFacts(const Graph& graph)
      : broadcast_(graph.value_count(), false), magnitude_(graph.value_count(), 0) {
    for (const NodeId id : graph.order()) find_magnitudes(graph, graph.node(id));
    for (auto it = graph.order().rbegin(); it != graph.order().rend(); ++it)
      find_broadcast(graph, graph.node(*it));
  }

  // A pointwise program broadcasts it, directly or after it was moved.
  bool is_broadcast(ValueId v) const { return v != kNoValue && broadcast_[static_cast<size_t>(v)]; }
  // The largest constant that may be in it: its own, or what pointwise programs and moves brought there.
  double magnitude(ValueId v) const { return v == kNoValue ? 0 : magnitude_[static_cast<size_t>(v)]; }

 private:
  void find_magnitudes(const Graph& graph, const Node& node) {
    double largest = std::max(largest_parameter(program_of(node)), largest_parameter(node.epilogue));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      const Value& value = graph.value(node.inputs[i]);
      double& magnitude = magnitude_[static_cast<size_t>(node.inputs[i])];
      if (value.is_constant() && value.dtype == DType::Float32 && magnitude == 0)
        magnitude = largest_magnitude(value.constant.data<float>());
      if (moves(node.op) || is_pointwise(node.op) || i >= node.op_input_count())
        largest = std::max(largest, magnitude);
    }
    for (const ValueId v : node.outputs)
      if (v != kNoValue) magnitude_[static_cast<size_t>(v)] = largest;
  }

  void find_broadcast(const Graph& graph, const Node& node) {
    const bool moved = moves(node.op) && std::any_of(node.outputs.begin(), node.outputs.end(),
                                                     [this](ValueId v) { return is_broadcast(v); });
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNoValue) continue;
      const bool operand = is_pointwise(node.op) || i >= node.op_input_count();
      if (moved || (operand && lathe::is_broadcast(graph.value(v).shape, graph.value(node.outputs[0]).shape)))
        broadcast_[static_cast<size_t>(v)] = true;
    }
  }

  std::vector<bool> broadcast_;
  std::vector<double> magnitude_;
};

// Those of `allowed` that the layer may have.
std::vector<DType> low_types(const Graph& graph, const Node& node, const ValueFacts& facts,
                             const std::vector<DType>& allowed) {
  if (!may_be_low(graph, node)) return {};
  std::vector<DType> types = allowed;
  const bool broadcast =
      std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return facts.is_broadcast(v); });
  double largest = 0;
  for (const ValueId v : node.outputs) largest = std::max(largest, facts.magnitude(v));
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool mask = std::holds_alternative<Attention>(node.op) && i == 3;  // read in its own type
    if (!mask) largest = std::max(largest, facts.magnitude(node.inputs[i]));
  }
  std::erase_if(types, [&](DType t) { return largest > largest_finite(t); });
  if (broadcast || std::holds_alternative<LayerNorm>(node.op)) std::erase(types, DType::BFloat16);
  return types;
}

// Where a caller demands types, those are what the layer may have.
std::vector<DType> demanded_types(const Graph& graph, const Node& node, const DemandedTypes& demanded) {
  std::vector<DType> types;
  const auto allow = [&](DType type) {
    if (type != DType::Float32 && std::find(types.begin(), types.end(), type) == types.end())
      types.push_back(type);
  };
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    if (graph.value(node.outputs[i]).dtype != DType::Float32) return {};
    if (const auto type = demanded.output(i)) allow(*type);
  }
  if (demanded.compute) allow(*demanded.compute);
  return types;
}

}  // namespace

bool mark_precisions(Graph& graph, PassContext& context) {
  bool changed = false;
  if (context.allowed_types.empty() && context.layer_types.by_node.empty()) return false;
  GraphEditor editor(graph);
  const ValueFacts facts(graph);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const DemandedTypes demanded = context.layer_types.of(node);
    std::vector<DType> types = demanded.any() ? demanded_types(graph, node, demanded)
                                              : low_types(graph, node, facts, context.allowed_types);
    if (types.empty() || node.allowed_types == types) continue;
    if (!context.may_change()) break;
    editor.set_allowed_types(id, std::move(types));
    changed = true;
  }
  return changed;
}

}  // namespace lathe
