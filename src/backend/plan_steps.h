// SPDX-License-Identifier: Apache-2.0
//
// What a plan of layers at concrete shapes (run/shape_plan.h of each backend) asks of its program. A plan has
// a step for each of its layers; steps of layers that do not know what has changed since another plan are
// shared with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "backend/layer_symbols.h"
#include "ir/graph.h"
#include "ir/symbol_extents.h"

namespace lathe {

// The layer is the same for both: it has names of all that it depends on, finds no size, and its names have
// equal values.
template <class Program>
bool has_same_shapes(const Program& program, size_t layer, const SymbolValues& a, const SymbolValues& b) {
  const auto& names = program.layers()[layer].symbols;
  return names && program.segments().new_symbols[layer].empty() && have_same_values(*names, a, b);
}

// Of `steps` steps from layer `first` on: fresh(begin, end) for runs of them that `like`, a plan of other
// values or null, does not have, and share(step) for the others, in their order.
template <class Program, class Plan, class Fresh, class Share>
void share_steps(const Program& program, size_t first, size_t steps, const SymbolValues& symbols,
                 const Plan* like, const Fresh& fresh, const Share& share) {
  const auto is_shared = [&](size_t step) {
    return like != nullptr && has_same_shapes(program, first + step, symbols, like->symbols());
  };
  for (size_t i = 0, end = 0; i < steps; i = end) {
    while (end < steps && !is_shared(end)) ++end;
    if (end > i) fresh(i, end);
    for (; end < steps && is_shared(end); ++end) share(end);
  }
}

// The layer has elements to write, or a size to find.
template <class Program>
bool has_work(const Program& program, size_t layer, std::span<const Extents> outputs) {
  const Node& node = program.graph().node(program.layers()[layer].node);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (node.outputs[i] != kNoValue && std::ranges::count(outputs[i], 0) == 0) return true;
  return !program.segments().new_symbols[layer].empty();
}

// The prepared layer asks for the memory of a result when it has it, because its size is not known before.
template <class Program, class Prepared>
bool finds_size(const Program& program, const Prepared* prepared, ValueId result,
                const SymbolValues& symbols) {
  return prepared != nullptr && prepared->takes_memory() &&
         !is_known(program.graph().value(result).shape, symbols);
}

}  // namespace lathe
