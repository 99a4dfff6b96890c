// SPDX-License-Identifier: Apache-2.0
//
//   Conv(Pad(x, spatial zeros))  ->  Conv(x) with larger pads
//
// Exporters of TensorFlow models write "same" padding of strided convolutions this way. Right because a
// convolution pads with zeros itself, and pads of both add up.
//
// Must not fire when the padding is not zero, reflects, crops, touches batch or channels, depends on shapes,
// or is read by anything else; nor when the convolution computes its own padding (auto_pad).
#include "ir/edit.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// Begin and end per dim, when all are numbers >= 0 and the fill is zero.
std::optional<Extents> zero_pads(const Graph& graph, NodeId id) {
  const auto* pad = plain_op<Pad>(graph, id);
  if (!pad || pad->mode != PadMode::Constant || !pad->pads || !is_static(*pad->pads)) return std::nullopt;
  const auto& inputs = graph.node(id).inputs;
  const bool has_fill = inputs.size() > 2 && inputs[2] != kNoValue;
  if (has_fill && scalar_constant(graph, inputs[2]) != 0.0) return std::nullopt;
  Extents pads = to_extents(*pad->pads);
  for (int64_t p : pads) {
    if (p < 0) return std::nullopt;
  }
  return pads;
}

}  // namespace

bool fold_pad(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const auto* conv = graph.node(id).removed ? nullptr : std::get_if<Conv>(&graph.node(id).op);
    if (!conv || conv->auto_pad != AutoPad::NotSet) continue;
    const ValueId padded = graph.node(id).inputs[0];
    const NodeId pad = graph.value(padded).producer;
    const auto pads = pad == kNoNode ? std::nullopt : zero_pads(graph, pad);
    const size_t rank = conv->kernel.size() + 2;
    const bool has_own_pads =
        conv->pads_begin.size() == conv->kernel.size() && conv->pads_end.size() == conv->kernel.size();
    if (!pads || !has_own_pads || pads->size() != 2 * rank || sole_user(graph, padded) != id) continue;
    if ((*pads)[0] || (*pads)[1] || (*pads)[rank] || (*pads)[rank + 1] || !context.may_change()) continue;
    Conv wider = *conv;
    for (size_t i = 0; i < conv->kernel.size(); ++i) {
      wider.pads_begin[i] += (*pads)[2 + i];
      wider.pads_end[i] += (*pads)[rank + 2 + i];
    }
    context.report_fusion(graph, pad, id);
    GraphEditor editor(graph);
    editor.set_op(id, std::move(wider));
    editor.replace_input(id, 0, graph.node(pad).inputs[0]);
    editor.absorb(id, pad);
    remove_if_unread(graph, pad);
    changed = true;
  }
  return changed;
}

}  // namespace lathe
