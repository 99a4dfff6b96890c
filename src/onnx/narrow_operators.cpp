// SPDX-License-Identifier: Apache-2.0
#include "onnx/narrow_operators.h"

#include <algorithm>
#include <iterator>

namespace lathe::onnx {
namespace {

constexpr uint32_t kFirst = 1u, kSecond = 1u << 1, kThird = 1u << 2, kFourth = 1u << 3, kButFirst = ~kFirst;

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
    {"Dropout", 13, kButFirst, 0, false, true},
    {"Elu", 22},
    {"Erf"},
    {"Exp"},
    {"Expand", 13, kSecond},
    {"Flatten"},
    {"Gather", 13, kSecond},
    {"GatherElements", 13, kSecond},
    {"GatherND", 13, kSecond},
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
    {"Pad", 13, kSecond | kFourth},
    {"Pow", 13, kSecond},
    {"RMSNormalization", 23},
    {"Reciprocal"},
    {"ReduceL1", 13, kSecond},
    {"ReduceL2", 13, kSecond},
    {"ReduceLogSum", 13, kSecond},
    {"ReduceLogSumExp", 13, kSecond},
    {"ReduceMax", 13, kSecond},
    {"ReduceMean", 13, kSecond},
    {"ReduceMin", 13, kSecond},
    {"ReduceProd", 13, kSecond},
    {"ReduceSum", 13, kSecond},
    {"ReduceSumSquare", 13, kSecond},
    {"Relu"},
    {"Reshape", 13, kSecond},
    {"Resize", 13, kButFirst},
    {"ScatterElements", 13, kSecond},
    {"ScatterND", 13, kSecond},
    {"Selu", 22},
    {"Sigmoid"},
    {"Sin", 22},
    {"Slice", 13, kButFirst},
    {"Softmax"},
    {"Softplus", 22},
    {"Softsign", 22},
    {"SpaceToDepth"},
    {"Split", 13, kSecond},
    {"Sqrt"},
    {"Squeeze", 13, kSecond},
    {"Sub"},
    {"Sum"},
    {"Tanh"},
    {"Tile", 13, kSecond},
    {"Transpose"},
    {"Trilu", 14, kSecond},
    {"Unsqueeze", 13, kSecond},
    {"Where", 16, kFirst},
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
