// SPDX-License-Identifier: Apache-2.0
//
// Squeeze and Unsqueeze whose axes only a run knows: the new shape is computed by integer operators, and a
// Reshape reads it. The rank is known, because the number of axes is.
#pragma once

#include "onnx/import_node.h"

namespace lathe::onnx {

// Input 0 with the axes of input 1 added or taken away.
ValueId unsqueeze_at_run_time(NodeImport& node);
ValueId squeeze_at_run_time(NodeImport& node);

}  // namespace lathe::onnx
