// SPDX-License-Identifier: Apache-2.0
//
// All passes by name, with what each does in a sentence: for people who switch them off.
#pragma once

#include <string_view>
#include <vector>

namespace lathe {

struct PassInfo {
  std::string_view name;
  std::string_view does;
  bool is_optional = false;  // taken where it is faster
};

// In the order in which they run first, each once.
std::vector<PassInfo> pass_catalogue();

}  // namespace lathe
