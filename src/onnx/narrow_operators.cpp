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

}  // namespace lathe::onnx
