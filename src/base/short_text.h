// SPDX-License-Identifier: Apache-2.0
//
// Texts that must fit somewhere, in characters rather than bytes: UTF-8 continuation bytes take no column.
#pragma once

#include <cstddef>
#include <string>

namespace lathe {

size_t text_width(const std::string& text);

// At most `width` characters, the middle replaced by an ellipsis.
std::string shorten(const std::string& text, size_t width);

}  // namespace lathe
