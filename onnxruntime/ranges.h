// SPDX-License-Identifier: Apache-2.0
//
// The shapes that an engine is built for, from those that runs bring.
#pragma once

#include <optional>
#include <string>

#include "lathe/types.h"

namespace lathe::onnxruntime_ep {

// The extents of an input, or the elements of a shape tensor.
struct InputRange {
  std::string input;
  bool values = false;  // elements
  v1::Dims min, opt, max;

  bool holds(const v1::Dims& seen) const;
};

// How often a range can be chosen in another way.
inline constexpr int kRangeAttempts = 6;

// The range of the engine that is built because `seen` does not lie in `old` (none: it is the first engine).
// `fixed`: the extents that the model gives, -1 where it leaves them open; empty for elements. Attempts,
// counted from 0, come ever nearer to what was seen: the first ones leave room, so that not every run that is
// a little larger than the last one builds anew; but shapes that depend on each other allow only some.
InputRange widen(const std::optional<InputRange>& old, const v1::Dims& fixed, const v1::Dims& seen,
                 int attempt);

}  // namespace lathe::onnxruntime_ep
