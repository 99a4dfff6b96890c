// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "onnx/import_node.h"

namespace lathe::onnx {

// Numbers in [0, 1) for each element of `like`, from the node's seed.
ValueId draw_uniform(NodeImport& node, ValueId like, std::string_view suffix);

}  // namespace lathe::onnx
