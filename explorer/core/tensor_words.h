// SPDX-License-Identifier: Apache-2.0
//
// The words that TensorRT's dialects use for element types and layouts, and the bytes they stand for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "explorer/core/model.h"

namespace lathe::explorer {

inline bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "FP32", "BF16", "INT8" ... from "Float", "Row major linear FP32", "kHALF"; "" when nothing is recognised.
std::string element_type(std::string_view words);
// Bits of one element; 0 for an unknown type.
int element_bits(std::string_view type);
bool is_float_type(std::string_view type);

// Bytes of a tensor, counting the channels that a vectorised layout pads; nothing when a dimension or the
// type is unknown.
std::optional<int64_t> tensor_bytes(const Shape& shape, std::string_view type, std::string_view format);

// Product of dimensions; nothing when one is unknown or the product has no meaning as a count.
std::optional<int64_t> element_count(const Shape& shape);

}  // namespace lathe::explorer
