// SPDX-License-Identifier: Apache-2.0
//
// Removes nodes whose results nobody reads and that give no graph output. Not counted as rewrites one by one:
// what is dead has no meaning that could go wrong.
#include "ir/edit.h"
#include "passes/passes.h"

namespace lathe {

bool remove_dead(Graph& graph, PassContext&) {
  return GraphEditor(graph).remove_dead_nodes() > 0;
}

}  // namespace lathe
