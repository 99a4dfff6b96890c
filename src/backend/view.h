// SPDX-License-Identifier: Apache-2.0
//
// Layers that move nothing: the output is a piece of the input's memory (Reshape, Identity, Slice and Split along the
// outermost axis, Gather of one index), or the inputs are pieces of the output's (Concat). The memory plan places them,
// nothing runs. The tactics are the same on every backend, but for the formats that it has and how it wants addresses.
#pragma once

#include <span>
#include <vector>

#include "backend/tactic.h"

namespace lathe {

inline constexpr std::string_view kViewRunner = "View";

struct ViewRules {
  std::vector<Format> formats = {kLinear};  // of tensors with three dims or more
  int64_t alignment_bytes = 1;              // a piece must begin at a multiple of this
};
std::vector<Tactic> list_views(const LayerQuery& query, const ViewRules& rules);

}  // namespace lathe
