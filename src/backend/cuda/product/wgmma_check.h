// SPDX-License-Identifier: Apache-2.0
//
// For tests of Hopper products: the family with variants that small layers would not get.
#pragma once

#include <set>
#include <string>

#include "backend/cuda/product/codegen_wgmma.h"

namespace lathe::cuda {

GeneratedFamily wgmma_family();

// These variants in each of the types that the family lists.
template <const WgmmaVariant* variants, size_t count>
GeneratedFamily only() {
  GeneratedFamily family = wgmma_family();
  family.list = [](const LayerQuery& query, const Device& device) {
    std::vector<Tactic> tactics;
    std::set<std::string> types;
    for (const Tactic& listed : wgmma_family().list(query, device))
      if (listed.support.ok && types.insert(describe(listed).substr(listed.name.size())).second)
        for (size_t i = 0; i < count; ++i)
          tactics.push_back(with_variant(listed, variants[i].name(), variants[i].params()));
    return tactics;
  };
  return family;
}

// Blocks that stay, of tiles whose columns 384 is a multiple of: threads have columns side by side.
inline constexpr WgmmaVariant kDealing[] = {{.tile = {2, 64, 2}, .stays = true, .blocks = 2},
                                            {.tile = {1, 128, 1}, .stays = true, .blocks = 3, .teams = 2},
                                            {.tile = {1, 192, 1}, .stays = true, .blocks = 2}};

}  // namespace lathe::cuda
