// SPDX-License-Identifier: Apache-2.0
#include "onnx/narrow_operators.h"

#include <algorithm>
#include <iterator>

namespace lathe::onnx {
namespace {

constexpr uint32_t kSecond = 1u << 1, kThird = 1u << 2;

// By name. From the type constraints of ONNX's schemas.
constexpr NarrowOperator kOperators[] = {
    {"Abs"},
    {"Add"},
    {"AveragePool", 22},
    {"BatchNormalization", 14},
    {"Cast"},
    {"Clip"},
    {"Concat"},
    {"Conv", 22, 0, 0, true},
    {"ConvTranspose", 22, 0, 0, true},
    {"Cos", 22},
    {"DepthToSpace"},
    {"Div"},
    {"Dropout", 13, kSecond, 0, false, true},
    {"Elu", 22},
    {"Erf"},
    {"Exp"},
    {"Expand"},
    {"Flatten"},
    {"Gather"},
    {"GatherElements"},
    {"GatherND"},
    {"Gelu", 20},
    {"Gemm", 13, 0, 0, true},
    {"GlobalAveragePool", 22},
    {"GlobalMaxPool", 22},
    {"GroupNormalization", 21},
    {"HardSigmoid", 22},
    {"HardSwish", 22},
    {"Identity", 13, 0, 0, false, true},
    {"InstanceNormalization", 22},
    {"LRN"},
    {"LayerNormalization", 17, 0, kSecond | kThird},
    {"LeakyRelu", 16},
    {"Log"},
    {"LogSoftmax"},
    {"MatMul", 13, 0, 0, true},
    {"Max"},
    {"MaxPool", 22},
    {"Mean"},
    {"Min"},
    {"Mish", 22},
    {"Mul"},
    {"Neg"},
    {"PRelu", 16},
    {"Pad"},
    {"Pow", 13, kSecond},
    {"RMSNormalization", 23},
    {"Reciprocal"},
    {"ReduceL1"},
    {"ReduceL2"},
    {"ReduceLogSum"},
    {"ReduceLogSumExp"},
    {"ReduceMax"},
    {"ReduceMean"},
    {"ReduceMin"},
    {"ReduceProd"},
    {"ReduceSum"},
    {"ReduceSumSquare"},
    {"Relu"},
    {"Reshape"},
    {"Resize", 13, kSecond | kThird},
    {"ScatterElements"},
    {"ScatterND"},
    {"Selu", 22},
    {"Sigmoid"},
    {"Sin", 22},
    {"Slice"},
    {"Softmax"},
    {"Softplus", 22},
    {"Softsign", 22},
    {"SpaceToDepth"},
    {"Split"},
    {"Sqrt"},
    {"Squeeze"},
    {"Sub"},
    {"Sum"},
    {"Tanh"},
    {"Tile"},
    {"Transpose"},
    {"Trilu", 14},
    {"Unsqueeze"},
    {"Where", 16},
};

// The opset from which on the operator means something else; null: its types alone grew.
struct Change {
  std::string_view op_type;
  int64_t opset;
};
constexpr Change kChanges[] = {
    {"DFT", 20}, {"GridSample", 20}, {"GroupNormalization", 21}, {"RoiAlign", 16}, {"Upsample", 10}};

std::string changed_operator(const GraphProto& graph, int64_t opset) {
  for (const NodeProto& node : graph.nodes) {
    for (const Change& change : kChanges)
      if (is_onnx_domain(node.domain) && node.op_type == change.op_type && opset < change.opset)
        return std::string(node.op_type);
    for (const AttributeProto& a : node.attributes)
      if (a.g) {
        // Bodies are copied as they are.
        if (std::any_of(a.g->nodes.begin(), a.g->nodes.end(), has_axes_attribute))
          return "a body's reduction";
        if (std::string found = changed_operator(*a.g, opset); !found.empty()) return found;
      }
  }
  return {};
}

}  // namespace

const NarrowOperator* find_narrow_operator(const NodeProto& node) {
  if (!is_onnx_domain(node.domain)) return nullptr;
  const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                   [&](const NarrowOperator& one) { return one.op_type == node.op_type; });
  return found == std::end(kOperators) ? nullptr : found;
}

bool reads_any_type(const NodeProto& node) {
  return is_onnx_domain(node.domain) && (node.op_type == "Shape" || node.op_type == "Size");
}

bool has_axes_attribute(const NodeProto& node) {
  return is_onnx_domain(node.domain) && node.op_type.starts_with("Reduce") &&
         std::any_of(node.attributes.begin(), node.attributes.end(),
                     [](const AttributeProto& a) { return a.name == "axes"; });
}

std::string why_not_raised(const ModelProto& model, int64_t opset) {
  if (!model.functions.empty()) return "it has functions";
  const std::string changed = changed_operator(model.graph, opset);
  return changed.empty() ? std::string() : changed + " changed after opset " + std::to_string(opset);
}

}  // namespace lathe::onnx
