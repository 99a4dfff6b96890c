// SPDX-License-Identifier: Apache-2.0
//
// Positions and counts that only a run finds, as int64 values of the graph.
#pragma once

#include "onnx/import_node.h"

namespace lathe::onnx {

// Input `input` as one number.
ValueId one_position(NodeImport& node, size_t input);
// The same, counted from the front of a sequence of `count`.
ValueId read_position(NodeImport& node, size_t input, ValueId count);
// The first dim of a value, and `more`.
ValueId count_and(NodeImport& node, ValueId value, int64_t more);
// Dim `axis` of a value as a number.
ValueId dim_of(NodeImport& node, ValueId value, size_t axis);
// 0, 1, ... below a number that a run finds, and as many as the dim says.
ValueId integers_below(NodeImport& node, ValueId limit);
ValueId integers(NodeImport& node, const Dim& count);
// The first dim of `values` (1, ...) is dropped where the condition (one bool) holds; else a run fails with
// an error that has `what` in the name of its layer.
ValueId required(NodeImport& node, ValueId values, ValueId condition, std::string_view what);

}  // namespace lathe::onnx
