// SPDX-License-Identifier: Apache-2.0
//
// Attributes of ONNX operators as values of a program: for operators that are called, and for models that are
// written.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/op.h"
#include "ir/tensor.h"

namespace lathe::onnx {

using AttributeValue =
    std::variant<int64_t, float, std::string, Ints, std::vector<float>, std::vector<std::string>, Tensor>;
using NamedAttribute = std::pair<std::string, AttributeValue>;
using Attributes = std::vector<NamedAttribute>;

}  // namespace lathe::onnx
