// SPDX-License-Identifier: Apache-2.0
//
// What to say of an operator that nothing imports: the advice depends on who wrote it into the file.
#pragma once

#include <string>
#include <string_view>

namespace lathe::onnx {

// As part of a sentence about the node. `domain` is empty for ONNX's own.
std::string why_operator_is_unknown(std::string_view domain, std::string_view op_type);

}  // namespace lathe::onnx
