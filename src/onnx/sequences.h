// SPDX-License-Identifier: Apache-2.0
//
// Sequences while a model is imported: lists of values. Where lengths and positions are known, sequences
// leave nothing in the graph; a name in sight then stands for a list instead of a value.
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
  const Values& elements(ValueId id) const;

  // Whether the operator is one that only works on sequences.
  static bool knows(std::string_view op_type);
  // The results when the operator is one on sequences (or on an optional that holds one); else nothing.
  // Throws Unsupported where only a run knows a position or a length.
  std::optional<Values> import_operator(NodeImport& node);

 private:
  static constexpr ValueId kFirst = -16;

  std::vector<Values> lists_;
};

}  // namespace lathe::onnx
