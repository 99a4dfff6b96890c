// SPDX-License-Identifier: Apache-2.0
//
// Host tensors from and to the formats in which an engine's inputs and outputs lie.
#pragma once

#include "ir/format.h"
#include "ir/tensor.h"

namespace lathe {

// The same elements, stored in `to`; no format here pads. `tensor` lies in `from`, whatever its extents say.
Tensor reordered(const Tensor& tensor, const Format& from, const Format& to);

}  // namespace lathe
