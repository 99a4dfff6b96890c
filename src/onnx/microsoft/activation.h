// SPDX-License-Identifier: Apache-2.0
//
// The activations that ONNX Runtime's fused operators name in an attribute.
#pragma once

#include <string_view>
#include <vector>

#include "onnx/import_node.h"

namespace lathe::onnx {

// `name` is ONNX's name of the operator (empty: none); `parameters` are its attributes in ONNX's order, and a
// missing one has ONNX's default.
ValueId apply_activation(NodeImport& node, ValueId x, std::string_view name,
                         const std::vector<float>& parameters);

// x + y, or x alone when y is absent.
ValueId add_optional(NodeImport& node, ValueId x, ValueId y, std::string_view suffix);

}  // namespace lathe::onnx
