// SPDX-License-Identifier: Apache-2.0
//
// Operators on a sequence that is the slices of one tensor (count, ...) along its first dim, where only a run
// finds how many there are, or at which position something is. Each reads its node's attributes, and the
// positions and tensors among its inputs.
#pragma once

#include <optional>

#include "onnx/import_node.h"

namespace lathe::onnx {

// A tensor as one slice (1, ...).
ValueId as_slice(GraphBuilder& builder, const Origin& node, ValueId element);
// Tensors of one type and shape as slices; there is at least one.
ValueId stack_slices(GraphBuilder& builder, const Origin& node, const Values& elements);

ValueId slice_at(NodeImport& node, ValueId slices);      // SequenceAt
ValueId insert_slice(NodeImport& node, ValueId slices);  // SequenceInsert of a tensor that fits
ValueId erase_slice(NodeImport& node, ValueId slices);   // SequenceErase
ValueId join_slices(NodeImport& node, ValueId slices);   // ConcatFromSequence
// SplitToSequence in parts of one size, of which a run finds how many there are; nothing for others.
std::optional<ValueId> split_to_slices(NodeImport& node);

}  // namespace lathe::onnx
