// SPDX-License-Identifier: Apache-2.0
//
// Which of ONNX's operators may compute in float16 and bfloat16, and what has to be known to change their
// types.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/dtype.h"
#include "onnx/model.h"

namespace lathe::onnx {

struct NarrowOperator {
  std::string_view op_type;
  // Since this opset for bfloat16; float16 is older than any that is converted.
  int64_t first_bfloat16 = 13;
  // Bit i: input or output i keeps its type whatever the others are: float32, or indices and sizes.
  uint32_t fixed_inputs = 0, fixed_outputs = 0;
  bool is_heavy = false;  // worth a Cast: products, convolutions
  bool passes = false;    // its output is its input
};

// Null for operators that keep their types.
const NarrowOperator* find_narrow_operator(const NodeProto& node);

// Reads a tensor of any type, and gives the same.
bool reads_any_type(const NodeProto& node);

inline constexpr int64_t kFirstNarrowOpset = 13;
// Where all of them have bfloat16.
inline constexpr int64_t kRaisedOpset = 22;

}  // namespace lathe::onnx
