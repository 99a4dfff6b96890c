// SPDX-License-Identifier: Apache-2.0
//
// What importing any loop needs of its node and its body.
#pragma once

#include "onnx/bodies.h"
#include "onnx/import_node.h"

namespace lathe::onnx {

// The trip count and the condition, absent or not, and the carried values.
void no_strings(const NodeImport& node, size_t input);
Values loop_operands(const NodeImport& node);
InputNames input_names(const GraphProto& body);
Values add_with_bodies(NodeImport& node, WithBodies made);

}  // namespace lathe::onnx
