// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

namespace lathe {

// Throws System: so many threads could not be started, and what they need.
[[noreturn]] void throw_no_threads(int count, const std::system_error& error);

}  // namespace lathe
