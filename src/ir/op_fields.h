// SPDX-License-Identifier: Apache-2.0
//
// How the struct of an operator names its fields.
#pragma once

#include <cstdint>
#include <vector>

namespace lathe {

using Ints = std::vector<int64_t>;

#define LATHE_FIELDS(...)                                      \
  template <class Self, class V>                               \
  static void visit([[maybe_unused]] Self& s, [[maybe_unused]] V&& v) { __VA_ARGS__ }
// (The one macro of the IR: it spares each struct two identical visitor templates, const and not.)

}  // namespace lathe
