// SPDX-License-Identifier: Apache-2.0
//
// Rows of all items of a batch without their padding, and where each of them lies among all rows.
#pragma once

#include <string>

#include "onnx/import_node.h"

namespace lathe::onnx {

// Rows without padding (tokens, D); offsets (B, S) of the tokens, then those of the padding, at input
// `offsets`.
class Packing {
 public:
  Packing(NodeImport& node, size_t offsets, const Dim& tokens);

  // (tokens, D) to (B, S, D), zero in the padding.
  ValueId unpacked(ValueId rows, const std::string& name);
  // (B, S, D) to (tokens, D).
  ValueId packed(ValueId rows);
  // How many tokens each item of the batch has, from the sums (B + 1) of them at input `sums`.
  ValueId counts(size_t sums);

 private:
  NodeImport& node_;
  Dim batch_, length_;
  ValueId offsets_ = kNoValue;
};

}  // namespace lathe::onnx
