// SPDX-License-Identifier: Apache-2.0
//
//   Clip, RoundTo[s] of values that come out of the same Clip, RoundTo[s]  ->  those values
//   RoundToE4M3[s] of values that come out of the same one                 ->  those values
//
// directly or through what only moves or picks them: Reshape, Transpose, Slice, Split, Expand, Concat (of
// such values only), max pooling, Relu where the clip has zero. Exporters quantise on both sides of such
// layers with one scale. Rounding twice is rounding once: a multiple of s over s lies within 1/100 of an
// integer, and near a number of E4M3 that number is the nearest.
//
// Must not fire when scales or bounds differ, or when one input of a Concat has another grid.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

constexpr int kDeepest = 8;  // a Concat of Concats could be walked many times

bool has_zero(const PointwiseProgram& program) {
  return program.steps.size() == 1 || (program.steps[0].alpha <= 0 && program.steps[0].beta >= 0);
}

// Gives elements of input 0, each as it is.
bool picks(const Op& op, const PointwiseProgram& program) {
  if (const auto* pool = std::get_if<Pool>(&op)) return pool->kind == PoolKind::Max;
  if (const auto* relu = std::get_if<Pointwise>(&op))
    return relu->code == PointwiseCode::Relu && has_zero(program);
  return std::holds_alternative<ReshapeOp>(op) || std::holds_alternative<Transpose>(op) ||
         std::holds_alternative<Slice>(op) || std::holds_alternative<Split>(op) ||
         std::holds_alternative<Expand>(op);
}

bool is_rounded(const Graph& graph, ValueId value, const PointwiseProgram& program, int depth = 0) {
  const NodeId id = graph.value(value).producer;
  if (id == kNoNode || !graph.node(id).epilogue.empty() || depth > kDeepest) return false;
  const Node& node = graph.node(id);
  if (const auto* chain = std::get_if<PointwiseChain>(&node.op)) return chain->program == program;
  if (std::holds_alternative<Concat>(node.op))
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return is_rounded(graph, input, program, depth + 1); });
  return picks(node.op, program) && is_rounded(graph, node.inputs[0], program, depth + 1);
}

}  // namespace

bool remove_repeated_rounding(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const auto* chain = graph.node(id).removed ? nullptr : plain_op<PointwiseChain>(graph, id);
    if (!chain || !only_rounds(chain->program)) continue;
    const ValueId x = graph.node(id).inputs[0];
    if (graph.value(x).dtype != graph.value(result_of(graph, id)).dtype) continue;
    if (is_rounded(graph, x, chain->program)) changed |= bypass(graph, context, id, x);
  }
  return changed;
}

}  // namespace lathe
