// SPDX-License-Identifier: Apache-2.0
//
// trtexec's JSON files have a fixed layout that line-based scripts rely on, so they are written as text; only
// strings need care. (Our own JSON goes through base/json.)
#pragma once

#include <string>
#include <string_view>

namespace lathe {

// Quoted, with control characters, quotes and backslashes escaped and invalid UTF-8 replaced.
std::string json_string(std::string_view text);

}  // namespace lathe
