// SPDX-License-Identifier: Apache-2.0
#include "backend/tactic.h"

namespace lathe {

SymbolValues LayerQuery::opt_values() const {
  SymbolValues values;
  for (const auto& [symbol, range] : ranges) values.emplace(symbol, range.opt);
  return values;
}

SymbolValues LayerQuery::max_values() const {
  SymbolValues values;
  for (const auto& [symbol, range] : ranges) values.emplace(symbol, range.max);
  return values;
}

}  // namespace lathe
