// SPDX-License-Identifier: Apache-2.0
//
// Turns pairs of elements by an angle per position, as rotary position embeddings do.
#pragma once

#include "onnx/import_node.h"

namespace lathe::onnx {

struct Rotation {
  int64_t width = 0;  // how many elements of each head turn, the first ones
  bool interleaved = false;
  int64_t head_axis = 1;  // of the four axes of x; positions are on the other one of 1 and 2
};

// x (B, H, S, D) or (B, S, H, D); cosines and sines (B or 1, S, width / 2 or more).
ValueId rotate(NodeImport& node, ValueId x, ValueId cosines, ValueId sines, const Rotation& rotation);

}  // namespace lathe::onnx
