// SPDX-License-Identifier: Apache-2.0
//
// From which to which layer a value's memory is in use: what the planner places arenas by, and what a plan
// from a file is held against.
#pragma once

#include <vector>

#include "memory/views.h"

namespace lathe {

struct Lifetime {
  int first = -1, last = -1;  // positions in graph order; -1: no layer reads or writes it
};

// By ValueId. A root's is that of everything that shares its memory; members of its group have none of their
// own.
std::vector<Lifetime> find_lifetimes(const Graph& graph, const ViewAnalysis& views);

}  // namespace lathe
