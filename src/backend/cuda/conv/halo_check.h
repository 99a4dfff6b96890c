// SPDX-License-Identifier: Apache-2.0
//
// For tests of convolutions that keep a border: the family with variants that small layers would not get.
#pragma once

#include <set>
#include <string>

#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

GeneratedFamily halo_family();

// Teams that take turns, with weights that are kept and with weights that come as they are needed, and tiles
// of a part of the image, in each of the types that the family lists.
inline GeneratedFamily halo_in_teams() {
  GeneratedFamily family = halo_family();
  family.list = [](const LayerQuery& query, const Device& device) {
    std::vector<Tactic> tactics;
    std::set<std::string> types;
    for (const Tactic& listed : halo_family().list(query, device))
      if (listed.support.ok && types.insert(describe(listed).substr(listed.name.size())).second)
        for (const int kept : {0, 1})
          tactics.push_back(with_variant(listed,
                                         std::string("cuda_wgmma_halo_") + (kept ? "keep_" : "") + "teams",
                                         {{"rows", 64 * (1 + kept)},
                                          {"columns", 32},
                                          {"resident", 1},
                                          {"teams", 2 + kept},
                                          {"width", 5},
                                          {"kept", kept}}));
    return tactics;
  };
  return family;
}

}  // namespace lathe::cuda
