// SPDX-License-Identifier: Apache-2.0
//
// Quantised tensors of vendors' operators, in ONNX's own terms.
#pragma once

#include <string>

#include "onnx/import_node.h"

namespace lathe::onnx {

// The numbers of a tensor; `zero` may be absent. A scale per index lies along `axis`.
ValueId dequantized(NodeImport& node, ValueId x, ValueId scale, ValueId zero, const std::string& name,
                    int64_t axis);

// As DynamicQuantizeLinear: the tensor in uint8, its scale and its zero point.
Values dynamically_quantized(NodeImport& node, ValueId x);

}  // namespace lathe::onnx
