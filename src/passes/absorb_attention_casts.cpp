// SPDX-License-Identifier: Apache-2.0
//
//   Attention(q, Cast[float32](k), Cast[float32](v), mask)  ->  Attention(q, k, v, mask)   k, v in 16 bits
//
// A step of a decoder reads the keys and values of all tokens so far, and little else: as they are stored it
// reads half the bytes, and nobody writes them as FP32 before. Only where the device computes in FP32 what is
// stored so (PassContext::widened_types): its kernels read keys and values in any type.
//
// Must not fire for more than one query, which packs keys and values anyway, nor when these are of different
// types.
#include <algorithm>

#include "ir/edit.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// What a Cast to FP32 reads in a type that the device widens; kNoValue for everything else.
ValueId narrow_source(const Graph& graph, const PassContext& context, ValueId value) {
  if (!producer_op<Cast>(graph, value) || graph.value(value).dtype != DType::Float32) return kNoValue;
  const ValueId source = graph.node(graph.value(value).producer).inputs[0];
  const auto& types = context.widened_types;
  const bool widened = std::find(types.begin(), types.end(), graph.value(source).dtype) != types.end();
  return widened ? source : kNoValue;
}

bool absorb_at(Graph& graph, PassContext& context, NodeId id) {
  const auto* attention = std::get_if<Attention>(&graph.node(id).op);
  if (!attention) return false;
  std::vector<ValueId> inputs = graph.node(id).inputs;
  const Shape& q = graph.value(inputs[0]).shape;
  const ValueId k = narrow_source(graph, context, inputs[1]), v = narrow_source(graph, context, inputs[2]);
  const size_t length = attention->layout == AttentionLayout::BHSD ? 2 : 1;
  if (k == kNoValue || v == kNoValue || !q[length].is_constant(1)) return false;
  if (graph.value(k).dtype != graph.value(v).dtype || !context.may_change()) return false;
  const NodeId casts[] = {graph.value(inputs[1]).producer, graph.value(inputs[2]).producer};
  context.report_fusion(graph, casts[0], id);
  inputs[1] = k;
  inputs[2] = v;
  GraphEditor(graph).set_inputs(id, std::move(inputs));
  for (const NodeId cast : casts) remove_if_unread(graph, cast);
  return true;
}

}  // namespace

bool absorb_attention_casts(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= absorb_at(graph, context, id);
  return changed;
}

}  // namespace lathe
