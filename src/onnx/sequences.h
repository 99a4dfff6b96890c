// SPDX-License-Identifier: Apache-2.0
//
// Sequences while a model is imported: lists of values. Where lengths and positions are known, sequences
// leave nothing in the graph; a name in sight then stands for a list instead of a value. A sequence whose
// length only a run finds, to which a loop appends, is the slices of one tensor along its first dim.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "onnx/import_node.h"

namespace lathe::onnx {

// A tensor as one slice (1, ...) of others.
ValueId as_slice(NodeImport& node, ValueId element);

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

  // Whether the operator is one that only works on sequences.
  static bool knows(std::string_view op_type);
  // The results when the operator is one on sequences (or on an optional that holds one); else nothing.
  // Throws Unsupported where only a run knows a position or a length.
  std::optional<Values> import_operator(NodeImport& node);

 private:
  static constexpr ValueId kFirst = -16;
  struct Sequence {
    Values elements;
    ValueId stacked = kNoValue;
  };
  const Sequence& at(ValueId id) const { return all_.at(static_cast<size_t>(kFirst - id)); }
  std::optional<Values> import_of_slices(NodeImport& node, ValueId stacked);

  std::vector<Sequence> all_;
};

}  // namespace lathe::onnx
