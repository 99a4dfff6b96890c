// SPDX-License-Identifier: Apache-2.0
//
// Heads of attention in operators that write them as a dim of their own: (batch, heads, length, width).
#pragma once

#include <string>

#include "onnx/import_node.h"

namespace lathe::onnx {

// `value` with each of its heads as often, one behind the other, as `heads` is their multiple (grouped
// queries). Throws Input where it is none.
ValueId repeat_heads(NodeImport& node, ValueId value, const Dim& heads, const std::string& name);

}  // namespace lathe::onnx
