// SPDX-License-Identifier: Apache-2.0
//
// Col2Im for a backend that has no kernel of it: element p of a block goes to its place by a transposed
// convolution whose filter p has a single one, at p.
//   Col2Im(x)  ->  ConvTranspose(Reshape(x), unit filters), one group per channel
//
// Must not fire when the backend has the operator, which needs no product; when the sizes are known only at
// run time; or when the filters would be large.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

constexpr int64_t kMostTaps = 1024, kMostWeights = 1 << 20;

// Filters that put element p of a block to its place: (channels * taps, 1, block...), each with a single one.
Tensor unit_filters(DType dtype, int64_t channels, const Ints& block) {
  const int64_t taps = element_count(Extents(block));
  std::vector<double> values(static_cast<size_t>(channels * taps * taps));
  for (int64_t row = 0; row < channels * taps; ++row)
    values[static_cast<size_t>(row * taps + row % taps)] = 1;
  Extents extents = {channels * taps, 1};
  extents.insert(extents.end(), block.begin(), block.end());
  return Tensor::from_doubles(dtype, extents, values);
}

std::optional<Ints> known_ints(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.is_constant() || !value.constant.has_bytes()) return std::nullopt;
  return value.constant.to_int64s();
}

// The convolution and the shape of its operand. Whether the sizes fit each other is checked by the operator's
// rule.
struct Lowered {
  ConvTranspose conv;
  Shape blocks;
};

std::optional<Lowered> lowered(const Graph& graph, const Node& node, const Col2Im& op) {
  const auto image = known_ints(graph, node.inputs[1]), block = known_ints(graph, node.inputs[2]);
  const Value& x = graph.value(node.inputs[0]);
  const Shape& shape = x.shape;
  if (!image || !block || !shape[1].is_constant() || !shape[2].is_constant() || !is_float(x.dtype))
    return std::nullopt;
  const int64_t taps = element_count(Extents(*block)), channels = shape[1].value() / taps;
  if (channels < 1 || taps > kMostTaps || shape[1].value() > kMostWeights / taps) return std::nullopt;
  Lowered result{.conv = {.kernel = *block,
                          .strides = op.strides,
                          .dilations = op.dilations,
                          .pads_begin = op.pads_begin,
                          .pads_end = op.pads_end,
                          .groups = channels},
                 .blocks = {shape[0], shape[1]}};
  for (size_t d = 0; d < image->size(); ++d) {
    const int64_t room =
        (*image)[d] + op.pads_begin[d] + op.pads_end[d] - ((*block)[d] - 1) * op.dilations[d] - 1;
    result.blocks.push_back(room / op.strides[d] + 1);
    result.conv.output_padding.push_back(room % op.strides[d]);
  }
  return result;
}

}  // namespace

bool lower_col2im(Graph& graph, PassContext& context) {
  if (context.has_operator(Col2Im::kName)) return false;
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order())) {
    const auto* op = plain_op<Col2Im>(graph, id);
    if (!op) continue;
    const Node node = graph.node(id);
    const auto made = lowered(graph, node, *op);
    if (!made || !context.may_change()) continue;
    const DType dtype = graph.value(node.inputs[0]).dtype;
    context.report_removal(graph, id);
    GraphEditor editor(graph);
    const ValueId filters = editor.add_constant(node.name + "_unit_filters",
                                                unit_filters(dtype, made->conv.groups, made->conv.kernel));
    const ValueId blocks =
        insert_like(graph, id, "_blocks", ReshapeOp{.shape = made->blocks}, {node.inputs[0]});
    editor.set_op(id, made->conv);
    editor.set_inputs(id, {blocks, filters});
    changed = true;
  }
  return changed;
}

}  // namespace lathe
