// SPDX-License-Identifier: Apache-2.0
//
// Choices may come from a file that others made. A kernel believes what its family's list() promises (types, formats, instructions
// that exist, operands that are constants), so a program asks the family again before it makes the kernel.
#pragma once

#include <span>
#include <vector>

#include "backend/program.h"

namespace lathe {

// Yes when `listed` has the tactic with these types, supported; no with the reason.
Support is_offered(std::span<const Tactic> listed, const Tactic& tactic);
// Throws Input that names layer and tactic.
void require_offered(const Support& support, const Node& layer, const Tactic& tactic);
// The graph as list() may see it. A final graph has one type for each value, while the tuner's had the model's own types and
// layers that may mix them: so a layer is asked about all types that its tactic has, first as it is, then, where values have 16
// bits, with all of them in FP32.
std::vector<Graph> graphs_to_ask(const Graph& graph, std::span<const Choice> choices);

}  // namespace lathe
