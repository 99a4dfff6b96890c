// SPDX-License-Identifier: Apache-2.0
//
// The version of this build: one place, CMakeLists.txt's project().
#pragma once

#include <string_view>

namespace lathe {

std::string_view version();         // "0.1.0"
std::string_view version_digits();  // "MMmmpp", as trtexec's banner shows it: "000100"

}  // namespace lathe
