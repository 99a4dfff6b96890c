// SPDX-License-Identifier: Apache-2.0
//
// Completion scripts of shells, made from the tables of commands and flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::cli {

// `shell`: bash, zsh or fish; Input for another. `models` are the names that `lathe zoo` knows.
std::string completion_script(std::string_view shell, const std::vector<std::string>& models);

}  // namespace lathe::cli
