// SPDX-License-Identifier: Apache-2.0
//
// Pages of the manual, made from the tables of commands and flags.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

// `page`: lathe or trtexec; Input for another. The text is for man(7): `lathe man trtexec | man -l -`.
std::string manual_page(std::string_view page);

}  // namespace lathe::cli
