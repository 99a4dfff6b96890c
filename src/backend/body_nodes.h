// SPDX-License-Identifier: Apache-2.0
//
// The nodes of the bodies of If, Loop and Scan, as backends run them: one after another, each with the tactic
// that was tuned for it (tune/tune_bodies.h), or with what is chosen here where none was. What both backends
// ask of such a node is here; how it runs is theirs (cpu/run/body_kernels.h, cuda/run/body_kernels.h).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/tactic.h"

namespace lathe {

// The ranges of the graph around the body, and an assumption for the dims that the body names itself.
SymbolRanges ranges_inside(const Graph& body, const SymbolRanges& ranges);

// Reshape, or a copy: the result shares the operand's bytes, wherever they lie.
bool only_changes_shape(const Node& node);
// That result. Operands behind the first one are in memory of the host.
std::vector<Tensor> with_other_shape(const Graph& graph, const Node& node, std::span<const Tensor> operands,
                                     const SymbolValues& symbols);

// The result is made of the operand's extents; its bytes are not read.
bool reads_only_extents(const Node& node);

// Others are evaluated: their bodies have kernels, they only change or say a shape, or they find the size of
// their result.
bool wants_kernel(const Graph& graph, const Node& node);

struct ChosenTactic {
  std::optional<Tactic> tactic;
  std::string reasons;  // of those who refused
};

// What an untimed build takes of the listed tactics, in the node's own types: exact sums that keep NaN before
// others; of these one with linear operands, if there is one. `is_dear`: taken only when all else is worse,
// because a new shape costs it more than a run.
ChosenTactic choose_for_body(const LayerQuery& query, std::vector<Tactic> listed,
                             const std::function<bool(const Tactic&)>& is_dear);

// The first node of the body, or of one inside of it, that only the reference runs, with the reason; empty
// when all have kernels. Changes of shape, and what finds the size of its result, are the reference's in a
// body: they cost nothing, or what they cost anywhere.
std::string without_kernel(const Graph& body, const SymbolRanges& ranges,
                           const std::function<ChosenTactic(const LayerQuery&)>& choose);

// The operands and results of a node whose dims all have values; nothing when one has not, when no result has
// an element, or when elements are made out of none and kernels of that runner do not.
struct BodyExtents {
  std::vector<Extents> inputs, outputs;
};
std::optional<BodyExtents> body_extents(const Graph& graph, NodeId id, std::string_view runner,
                                        const std::vector<int64_t>& key, const SymbolValues& symbols);

}  // namespace lathe
