// SPDX-License-Identifier: Apache-2.0
//
// A greedy walk: each layer joins the group in front of it, or begins one.
#include "backend/cuda/run/launch_groups.h"

#include <algorithm>
#include <optional>
#include <span>

namespace lathe::cuda {
namespace {

bool overlap(const MemoryRange& a, const MemoryRange& b) {
  const auto begin = [](const MemoryRange& r) { return reinterpret_cast<uintptr_t>(r.address); };
  return a.address != nullptr && b.address != nullptr && a.bytes > 0 && b.bytes > 0 &&
         begin(a) < begin(b) + static_cast<uintptr_t>(b.bytes) &&
         begin(b) < begin(a) + static_cast<uintptr_t>(a.bytes);
}

bool overlap(std::span<const MemoryRange> a, std::span<const MemoryRange> b) {
  return std::any_of(a.begin(), a.end(), [&](const MemoryRange& x) {
    return std::any_of(b.begin(), b.end(), [&](const MemoryRange& y) { return overlap(x, y); });
  });
}

// How a layer can follow a group; nothing: it has to wait for it.
std::optional<LaunchOrder> order_behind(const std::vector<const LayerUse*>& group, const LayerUse& layer) {
  if (group.empty() || !layer.overlap.takes_order) return std::nullopt;
  const auto written_by_group = [&](std::span<const MemoryRange> ranges) {
    return std::any_of(group.begin(), group.end(),
                       [&](const LayerUse* front) { return overlap(front->writes, ranges); });
  };
  const bool writes_into_group =
      written_by_group(layer.writes) || std::any_of(group.begin(), group.end(), [&](const LayerUse* front) {
        return overlap(front->reads, layer.writes) || overlap(front->late_reads, layer.writes);
      });
  LaunchOrder order{.place = LaunchPlace::Follows};
  order.waits_late = writes_into_group || written_by_group(layer.late_reads);
  if (order.waits_late && !layer.overlap.may_wait_late) return std::nullopt;
  for (size_t i = 0; i < layer.reads.size(); ++i) {
    if (!written_by_group(std::span(&layer.reads[i], 1))) continue;
    if (!layer.overlap.waits_by_input || i >= LaunchOrder::kMostLateInputs) return std::nullopt;
    order.late_inputs |= 1u << i;
  }
  return order;
}

}  // namespace

std::vector<LaunchOrder> group_launches(const std::vector<LayerUse>& layers) {
  std::vector<LaunchOrder> orders(layers.size());
  std::vector<const LayerUse*> group;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerUse& layer = layers[i];
    if (!layer.is_launched) continue;
    if (const auto order = order_behind(group, layer)) {
      orders[static_cast<size_t>(group.front() - layers.data())].place = LaunchPlace::Leads;
      orders[i] = *order;
    } else {
      group.clear();
    }
    if (layer.overlap.takes_order) group.push_back(&layer);
  }
  return orders;
}

}  // namespace lathe::cuda
