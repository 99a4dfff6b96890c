// SPDX-License-Identifier: Apache-2.0
#include "backend/operand_dtype.h"

#include "ir/broadcast.h"

namespace lathe {

DType operand_dtype(const Value& operand, const Shape& result_shape, DType result) {
  if (!is_float(operand.dtype) || !is_float(result)) return operand.dtype;
  const bool keeps = result == DType::BFloat16 && is_broadcast(operand.shape, result_shape);
  return keeps ? operand.dtype : result;
}

}  // namespace lathe
