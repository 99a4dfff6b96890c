// SPDX-License-Identifier: Apache-2.0
//
// How flags stand in help texts: the name, its value, and what it does in a column beside them.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

// "  --flag=<value>            description", wrapped under itself.
std::string flag_line(std::string_view name_and_value, std::string_view help);

// Words wrapped at `width` characters; lines after the first begin with `indent` blanks.
std::string wrapped(std::string_view text, size_t indent, size_t width);

}  // namespace lathe::cli
