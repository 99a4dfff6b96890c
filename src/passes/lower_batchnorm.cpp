// SPDX-License-Identifier: Apache-2.0
//
// A BatchNorm that could not go into a convolution becomes x * k + t with constants per channel, two
// pointwise nodes that fuse with their neighbours:
//   k = scale / sqrt(variance + epsilon),  t = bias - mean * k
//
// Must not fire when the parameters are not constants, or when the number of channels is known only at run
// time: a BatchNorm refuses a wrong one, a product would spread one channel over all constants. Then the
// layer stays as it is.
#include <cmath>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

struct Affine {
  std::vector<double> factor, summand;
};

std::optional<Affine> affine_of(const Graph& graph, const Node& node, float epsilon) {
  std::vector<std::vector<double>> p;
  for (size_t i = 1; i < 5; ++i) {
    const Value& value = graph.value(node.inputs[i]);
    if (!value.is_constant() || !value.constant.has_bytes()) return std::nullopt;
    p.push_back(value.constant.to_doubles());
    if (p.back().size() != p.front().size()) return std::nullopt;
  }
  Affine affine;
  for (size_t c = 0; c < p[0].size(); ++c) {
    affine.factor.push_back(p[0][c] / std::sqrt(p[3][c] + static_cast<double>(epsilon)));
    affine.summand.push_back(p[1][c] - p[2][c] * affine.factor[c]);
  }
  return affine;
}

}  // namespace

bool lower_batchnorm(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const auto* norm = plain_op<BatchNorm>(graph, id);
    if (!norm) continue;
    const Node node = graph.node(id);
    const auto affine = affine_of(graph, node, norm->epsilon);
    const Value& x = graph.value(node.inputs[0]);
    if (!affine || x.shape.size() < 2) continue;
    const auto channels = static_cast<int64_t>(affine->factor.size());
    if (!x.shape[1].is_constant(channels) || !context.may_change()) continue;
    Extents extents(x.shape.size() - 1, 1);  // [C, 1, 1]
    extents[0] = channels;
    const DType dtype = x.dtype;
    context.report_removal(graph, id);
    GraphEditor editor(graph);
    const ValueId k =
        editor.add_constant(node.name + "_factor", Tensor::from_doubles(dtype, extents, affine->factor));
    const ValueId t =
        editor.add_constant(node.name + "_summand", Tensor::from_doubles(dtype, extents, affine->summand));
    const ValueId product =
        insert_like(graph, id, "_scale", Pointwise{PointwiseCode::Mul}, {node.inputs[0], k});
    editor.set_op(id, Pointwise{PointwiseCode::Add});
    editor.set_inputs(id, {product, t});
    changed = true;
  }
  return changed;
}

}  // namespace lathe
