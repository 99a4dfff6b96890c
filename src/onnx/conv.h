// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of vendors' operators.
#pragma once

#include "onnx/import_node.h"
#include "onnx/window.h"

namespace lathe::onnx {

// ONNX's ConvTranspose of inputs 0 and 1 by the node's attributes, except for those of the window.
ValueId conv_transpose(NodeImport& node, const Window& window, ValueId bias);

}  // namespace lathe::onnx
