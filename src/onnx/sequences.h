// SPDX-License-Identifier: Apache-2.0
//
// Sequences while a model is imported: lists of values. Where lengths and positions are known, sequences
// leave nothing in the graph; a name in sight then stands for a list instead of a value. A sequence whose
// length or positions only a run finds is the slices of one tensor along its first dim, so that its tensors
// have one shape (sequence_slices.h).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "onnx/import_node.h"

namespace lathe::onnx {

class Sequences {
 public:
  // Ids of lists are no ids of values; they are below all special ones.
  static bool is_sequence(ValueId id) { return id <= kFirst; }
  ValueId add(Values elements);
  // Slices of a tensor along its first dim.
  ValueId add_slices(ValueId stacked);
  // The tensor whose slices the sequence is; kNoValue for a list.
  ValueId stacked(ValueId id) const;
  // Of a list. Throws Unsupported for a sequence of slices.
  const Values& elements(ValueId id) const;
  // The tensor whose slices a sequence is, which for a list is made: by layers of `node`, in the graph that
  // has its tensors. Throws Unsupported where they differ in type or shape, or there are none.
  ValueId as_slices(GraphBuilder& builder, const Origin& node, ValueId id) const;

  // Whether the operator is one that only works on sequences.
  static bool knows(std::string_view op_type);
  // The results when the operator is one on sequences (or on an optional that holds one); else nothing.
  // Throws Unsupported where only a run knows a position or a length, and tensors differ.
  std::optional<Values> import_operator(NodeImport& node);

 private:
  static constexpr ValueId kFirst = -16;
  struct Sequence {
    Values elements;
    ValueId stacked = kNoValue;
  };
  const Sequence& at(ValueId id) const { return all_.at(static_cast<size_t>(kFirst - id)); }
  Values import_of_slices(NodeImport& node, ValueId slices);

  std::vector<Sequence> all_;
};

}  // namespace lathe::onnx
