// SPDX-License-Identifier: Apache-2.0
//
// Does a network treat the items of its batch one by one? Then it may compute them in parts
// (backend/batch_split.h).
#pragma once

#include <string>

#include "ir/graph.h"

namespace lathe {

// The symbol that is the batch, or why there is none.
struct BatchItems {
  std::string symbol;
  std::string reason;  // when `symbol` is empty
  std::string batch;   // then: what could have been it, from its place in the outputs; or empty
};

BatchItems find_batch_items(const Graph& graph);

}  // namespace lathe
