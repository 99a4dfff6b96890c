// SPDX-License-Identifier: Apache-2.0
//
// For --bf16, --fp16 and --best: says on each FP32 layer in which other types it may compute and store. The tuner decides.
//
// Products and what stands between them may be low: Conv, MatMul, Attention, pooling, batch and group norms, softmax,
// activations, data movement. Inside, accumulation, softmax, norms, pow and exp stay FP32 whatever is stored. Must not mark:
//   * LayerNorm in bfloat16: it stands on the residual stream of a transformer. What it stores in a low type is added to every
//     layer that follows, so the error grows with depth (BERT-base, bfloat16, relative L2: 1.1e-2 with low norms, 4.4e-3
//     without). Float16 rounds eight times finer, and on a GPU the casts and wider rows round FP32 norms cost a fifth of BERT;
//   * functions whose results span many orders of magnitude (Exp, Pow, Log, Reciprocal, ... as layers of their own);
//   * layers that turn data into decisions (TopK, ArgReduce, NonMaxSuppression, comparisons) or count (CumSum, Range);
//   * Q/DQ, Cast, and everything that is not FP32: those types are the user's own.
#include "ir/edit.h"
#include "passes/passes.h"

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
  bool operator()(const Softmax& op) const { return !op.log; }
  bool operator()(const BatchNorm&) const { return true; }
  bool operator()(const GroupNorm&) const { return true; }
  bool operator()(const LayerNorm&) const { return true; }
  bool operator()(const Pool&) const { return true; }
  bool operator()(const Reduce& op) const {
    return op.kind == ReduceKind::Mean || op.kind == ReduceKind::Max;
  }
  bool operator()(const ReshapeOp&) const { return true; }
  bool operator()(const Transpose&) const { return true; }
  bool operator()(const Concat&) const { return true; }
  bool operator()(const Split&) const { return true; }
  bool operator()(const Slice&) const { return true; }
  bool operator()(const Expand&) const { return true; }
  bool operator()(const Pad&) const { return true; }
  bool operator()(const Resize&) const { return true; }
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

// Those of `allowed` that the layer may have.
std::vector<DType> low_types(const Graph& graph, const Node& node, const std::vector<DType>& allowed) {
  if (!may_be_low(graph, node)) return {};
  std::vector<DType> types = allowed;
  if (std::holds_alternative<LayerNorm>(node.op)) std::erase(types, DType::BFloat16);
  return types;
}

}  // namespace

bool mark_precisions(Graph& graph, PassContext& context) {
  bool changed = false;
  GraphEditor editor(graph);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<DType> types = low_types(graph, node, context.allowed_types);
    if (types.empty() || node.allowed_types == types) continue;
    if (!context.may_change()) break;
    editor.set_allowed_types(id, std::move(types));
    changed = true;
  }
  return changed;
}

}  // namespace lathe
