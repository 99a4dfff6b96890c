// SPDX-License-Identifier: Apache-2.0
#include "tune/workspace.h"

#include "ir/symbol_extents.h"
#include "tune/signature.h"

namespace lathe {
namespace {

// Equal layers are asked once; what they need depends on the largest shapes, which the signature leaves out.
std::string key_of(const LayerQuery& query, const Tactic& tactic) {
  std::string key = layer_signature(query) + types_signature(tactic) + tactic.name;
  const SymbolValues most = query.max_values();
  for (const auto& ids : {query.layer().inputs, query.layer().outputs})
    for (const ValueId id : ids)
      if (id != kNoValue) key += to_string(upper_extents(query.graph.value(id).shape, most));
  return key;
}

}  // namespace

std::string WorkspaceLimit::refusal(const LayerQuery& query, const Tactic& tactic) {
  if (bytes_ < 0 || tactic.is_view) return {};
  const auto [entry, is_new] = needs_.emplace(key_of(query, tactic), 0);
  if (is_new) entry->second = backend_.scratch_bytes(query, tactic);
  unknown_ |= entry->second < 0;
  if (entry->second <= bytes_) return {};
  return "it needs " + std::to_string(entry->second) +
         " bytes of scratch memory, and the workspace limit is " + std::to_string(bytes_) + " bytes";
}

}  // namespace lathe
