// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms of vendors' operators.
#pragma once

#include "onnx/import_node.h"

namespace lathe::onnx {

// x (..., points, 1 or 2 parts), transformed along its second last dim: as a product with a matrix where the
// number of points is known and moderate, else by the operator.
ValueId fourier_transform(NodeImport& node, const DFT& op, ValueId x);

}  // namespace lathe::onnx
