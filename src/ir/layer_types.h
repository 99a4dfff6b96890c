// SPDX-License-Identifier: Apache-2.0
//
// Types that a caller demands of layers (--layerPrecisions, --layerOutputTypes), by the names that their
// nodes have in the model.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace lathe {

struct DemandedTypes {
  std::optional<DType> compute;  // of what a layer reads; empty: any
  std::vector<DType> outputs;    // one for all, or one for each; empty: any
  bool is_required = false;      // an error where no tactic has them; else others are taken

  bool any() const { return compute || !outputs.empty(); }
  std::optional<DType> output(size_t index) const;
};

struct LayerTypes {
  std::map<std::string, DemandedTypes, std::less<>> by_node;  // by Origin::name

  // Of a layer that several nodes became: FP32 where one of them demands it; the results are those of the
  // last node.
  DemandedTypes of(const Node& node) const;
};

}  // namespace lathe
