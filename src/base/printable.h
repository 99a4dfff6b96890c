// SPDX-License-Identifier: Apache-2.0
//
// Text for terminals and logs. Names come from models, engines and reports of other people; a control
// character in one could move the cursor, rewrite lines that were printed, or change the terminal's title.
// Everything that is printed goes through here.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

// Control characters but newline and tab, marks that reverse the direction of text, and bytes that are no
// UTF-8 as "\x1b" or "\u202e"; the rest as it is.
std::string printable(std::string_view text);

}  // namespace lathe
