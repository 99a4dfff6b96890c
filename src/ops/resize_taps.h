// SPDX-License-Identifier: Apache-2.0
//
// What Resize does along one dim, for kernels: all of ONNX's modes and coordinates as sums of a few inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op_def.h"

namespace lathe {

// Position i of the result is the sum over k < taps of weights[i * taps + k] * x[index[i * taps + k]].
struct ResizeTaps {
  size_t axis = 0;
  int64_t in = 0, out = 0, taps = 1;
  std::vector<int64_t> index;
  std::vector<float> weights;
};

// One for each dim that changes. `context` holds the operator's inputs, as far as they are constants;
// coordinates of crops are not for this.
std::vector<ResizeTaps> resize_taps(const Resize& op, const EvaluateContext& context, const Extents& x);

}  // namespace lathe
