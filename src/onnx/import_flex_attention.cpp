// SPDX-License-Identifier: Apache-2.0
//
// FlexAttention (ai.onnx.preview), torch's flex_attention: attention whose scores and weights go through
// graphs of the model's own. It is written out, with these graphs in place; what the core operator can say
// (masks, biases) the passes then find as in any other spelling.
#include <cmath>

#include "onnx/graph_importer.h"
#include "onnx/heads.h"
#include "ops/shape_rules.h"

namespace lathe::onnx {

// `value` after the graph of that attribute, or as it is where the node has none.
ValueId GraphImporter::modify(std::string_view attribute, ValueId value, NodeImport& node, Scope& scope) {
  const GraphProto* graph = node.graph(attribute);
  if (graph == nullptr) return value;
  const std::string name(attribute);
  if (graph->inputs.size() != 1 || graph->outputs.size() != 1)
    node.fail("its " + name + " takes " + std::to_string(graph->inputs.size()) + " values and gives " +
              std::to_string(graph->outputs.size()) + "; it takes and gives one");
  Scope inner = inner_scope(node, scope);
  inner.prefix += name + "/";
  inner.values[graph->inputs[0].name] = value;
  const ValueId result = import_inline(*graph, inner)[0];
  if (node.dtype_of(result) != node.dtype_of(value) || !(node.shape_of(result) == node.shape_of(value)))
    node.fail("its " + name + " makes " + type_text(node.dtype_of(result), node.shape_of(result)) + " of " +
              type_text(node.dtype_of(value), node.shape_of(value)) + "; type and shape must stay");
  return result;
}

Values GraphImporter::import_flex_attention(NodeImport& node, Scope& scope) {
  for (size_t i = 0; i < 3; ++i)
    if (node.rank(i) != 4) node.fail("q, k and v need four dimensions");
  const Shape q = node.shape(0);
  if (!q[3].is_constant()) throw_unsupported("the size of its heads is not constant");
  const DType own = node.dtype(0);
  const DType precise =
      node.element_type("softmax_precision", own == DType::Float64 ? DType::Float64 : DType::Float32);
  const auto in_type = [&](ValueId value, DType type, std::string_view name) {
    return node.dtype_of(value) == type ? value : node.cast(value, type, name);
  };
  const ValueId k = repeat_heads(node, node.in(1), q[1], "k_repeat");
  const ValueId v = repeat_heads(node, node.in(2), q[1], "v_repeat");
  const double scale = node.real("scale", 1 / std::sqrt(static_cast<float>(q[3].value())));
  const ValueId product =
      node.add(MatMul{}, {node.in(0), node.transpose(k, {0, 1, 3, 2}, "k_transpose")}, "product");
  const ValueId scaled =
      node.pointwise(PointwiseCode::Mul, {product, node.scalar(scale, own)}, 0, 0, "scores");
  const ValueId scores = modify("score_mod", in_type(scaled, precise, "scores_cast"), node, scope);
  const ValueId weights = modify("prob_mod", node.add(Softmax{.axis = 3}, {scores}, "weights"), node, scope);
  const ValueId y = node.add(MatMul{}, {weights, in_type(v, precise, "v_cast")}, "y");
  return {in_type(y, own, "y_cast")};
}

}  // namespace lathe::onnx
