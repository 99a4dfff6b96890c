// SPDX-License-Identifier: Apache-2.0
//
// Layers that move nothing (backend/view.h).
#include "backend/view.h"

#include "backend/cuda/kernel.h"

namespace lathe::cuda {
namespace {

std::vector<Tactic> list_view(const LayerQuery& query, const Device& device) {
  return list_views(query, {.formats = {kLinear, kChannelsLast},
                            .alignment_bytes = 16,
                            .small_floats = device.properties.multiplies_fp8()});
}

// Never called for a view: nothing runs.
std::unique_ptr<LayerKernel> make_view(const LayerQuery&, const Tactic&, const Device&, const PackContext&) {
  return nullptr;
}

}  // namespace

TacticFamily view_tactics() {
  return {kViewRunner, list_view, make_view};
}

}  // namespace lathe::cuda
