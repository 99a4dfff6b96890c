// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/shape.h"

namespace lathe {

// One element of `operand` meets several of `result`, to which it broadcasts by numpy's rule. A symbolic dim
// counts as more than one element.
bool is_broadcast(const Shape& operand, const Shape& result);

}  // namespace lathe
