// SPDX-License-Identifier: Apache-2.0
#include "onnx/unknown_operator.h"

#include "onnx/import_node.h"

namespace lathe::onnx {

namespace {

std::string why_microsoft(std::string_view op_type) {
  if (op_type.starts_with("Q") || op_type.find("Quant") != std::string_view::npos)
    return "this operator of ONNX Runtime is not supported (docs/operators.md lists those that are); "
           "quantize the model with "
           "QuantFormat.QDQ";
  return "this operator of ONNX Runtime is not supported (docs/operators.md lists those that are); convert "
         "the model without it, "
         "or save it with the graph optimizations of level 'basic'";
}

}  // namespace

std::string why_operator_is_unknown(std::string_view domain, std::string_view op_type) {
  const std::string name(domain);
  if (domain.empty()) return "the operator is not supported; docs/operators.md lists those that are";
  if (domain == kMicrosoftDomain) return why_microsoft(op_type);
  if (domain == "com.microsoft.nchwc" || domain == "com.ms.internal.nhwc")
    return "ONNX Runtime wrote it for the machine on which it saved the model; save it with the graph "
           "optimizations of level "
           "'extended' instead of 'all'";
  if (domain == kMlDomain)
    return "the operator is not supported; docs/operators.md lists those of ai.onnx.ml that are";
  if (domain == "ai.onnx.preview.training" || domain == "ai.onnx.training")
    return "it is for training, where only the steps of Adagrad, Adam and Momentum are supported; export the "
           "model for inference";
  if (domain == "org.pytorch.aten")
    return "PyTorch wrote it because its exporter knows no ONNX form; export with dynamo=True, or replace "
           "the operation";
  if (domain.starts_with("trt") || op_type.starts_with("TRT_"))
    return "it is a plugin of TensorRT, whose code is not in the model; replace it with ONNX's operators";
  return "there is no function '" + std::string(op_type) + "' of domain '" + name +
         "' in the model, and the domain is not known; export the model without custom operators, or with "
         "their functions";
}

}  // namespace lathe::onnx
