// SPDX-License-Identifier: Apache-2.0
//
// Layers that move nothing (backend/view.h).
#include "backend/view.h"

#include "backend/cpu/kernel.h"

namespace lathe::cpu {
namespace {

std::vector<Tactic> list_view(const LayerQuery& query, const Machine&) {
  return list_views(query, {.formats = {kLinear, kChannelsLast, kBlocked16, kBlocked8}});
}

// Never called for a view: nothing runs.
std::unique_ptr<LayerKernel> make_view(const LayerQuery&, const Tactic&, const Machine&, const PackContext&) {
  return nullptr;
}

}  // namespace

TacticFamily view_tactics() {
  return {kViewRunner, list_view, make_view};
}

}  // namespace lathe::cpu
