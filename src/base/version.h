// SPDX-License-Identifier: Apache-2.0
//
// The version of this build: one place, CMakeLists.txt's project().
#pragma once

#include <string_view>

namespace lathe {

std::string_view version();         // "0.2.0"
std::string_view version_digits();  // "MMmmpp", as trtexec's banner shows it: "000200"
std::string_view release_date();    // "2026-11-24", for the manual

}  // namespace lathe
