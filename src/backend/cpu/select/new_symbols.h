// SPDX-License-Identifier: Apache-2.0
//
// Dims that a layer's data decides: what a run found becomes the values of symbols.
#pragma once

#include "backend/tactic.h"

namespace lathe::cpu {

class NewSymbols {
 public:
  explicit NewSymbols(const LayerQuery& query) {
    for (const ValueId id : query.layer().outputs)
      shapes_.push_back(id == kNoValue ? Shape{} : query.graph.value(id).shape);
  }
  // Output `index` came out with these extents.
  void resolve(size_t index, const Extents& found, SymbolValues& values) const {
    for (size_t d = 0; d < shapes_[index].size(); ++d)
      if (const auto name = shapes_[index][d].as_symbol(); name && !values.contains(*name))
        values.emplace(*name, found[d]);
  }

 private:
  std::vector<Shape> shapes_;
};

}  // namespace lathe::cpu
