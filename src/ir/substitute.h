// SPDX-License-Identifier: Apache-2.0
//
// Replaces dims everywhere in a graph: in shapes, contents and attributes. A profile with min = max makes a
// dynamic model static, and then everything folds.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string>

#include "ir/graph.h"

namespace lathe {

using DimReplacements = std::map<std::string, Dim, std::less<>>;

Op substitute_dims(Op op, const DimReplacements& replacements);
Shape substitute_dims(const Shape& shape, const DimReplacements& replacements);
// The names in the operator's own dims; those of its bodies are not among them.
std::set<std::string> symbols_of(const Op& op);
void substitute_dims(Graph& graph, const DimReplacements& replacements);

// The same for any function of a dim.
using DimMap = std::function<Dim(const Dim&)>;
void map_dims(Graph& graph, const DimMap& map);

}  // namespace lathe
