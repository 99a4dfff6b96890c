// SPDX-License-Identifier: Apache-2.0
#include "ir/broadcast.h"

#include <algorithm>

namespace lathe {

bool is_broadcast(const Shape& operand, const Shape& result) {
  const size_t missing = result.size() - std::min(operand.size(), result.size());
  for (size_t i = 0; i < result.size(); ++i)
    if ((i < missing || operand[i - missing].is_constant(1)) && !result[i].is_constant(1)) return true;
  return false;
}

}  // namespace lathe
