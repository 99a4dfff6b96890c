// SPDX-License-Identifier: Apache-2.0
//
// The operators on sequences whose lengths or positions only a run finds and whose tensors differ in shape
// (ragged_sequence.h). Each reads its node's attributes, and the positions and tensors among its inputs.
#pragma once

#include <optional>

#include "onnx/import_node.h"
#include "onnx/ragged_sequence.h"

namespace lathe::onnx {

ValueId ragged_at(NodeImport& node, const Ragged& sequence);     // SequenceAt
Ragged insert_ragged(NodeImport& node, const Ragged& sequence);  // SequenceInsert
Ragged erase_ragged(NodeImport& node, const Ragged& sequence);   // SequenceErase
ValueId join_ragged(NodeImport& node, const Ragged& sequence);   // ConcatFromSequence
// SplitToSequence in parts whose sizes or number a run finds; nothing for others.
std::optional<Ragged> split_to_ragged(NodeImport& node);

}  // namespace lathe::onnx
