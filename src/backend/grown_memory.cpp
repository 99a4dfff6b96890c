// SPDX-License-Identifier: Apache-2.0
#include "backend/grown_memory.h"

#include <algorithm>
#include <numeric>

#include "ir/symbol_extents.h"

namespace lathe {

std::byte* GrownMemory::reserve(int slot, size_t bytes) {
  constexpr size_t kLeast = 4096;
  const auto at = static_cast<size_t>(slot);
  const size_t old = sizes_[at];
  if (bytes <= old && old > 0) return addresses_[at];
  // What grows a little at each step of a loop is moved only now and then.
  const size_t wanted = std::max({kLeast, bytes, old + old / 2});
  addresses_[at] = enlarge(at, wanted);
  sizes_[at] = wanted;
  return addresses_[at];
}

size_t GrownMemory::bytes() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), size_t{0});
}

GrownResults::GrownResults(const ProgramSpec& spec, size_t first, size_t steps, const SymbolValues& symbols,
                           const FindsSize& finds_size) {
  if (spec.memory.slots == 0) return;
  for (size_t i = 0; i < steps; ++i) {
    const std::vector<ValueId>& outputs = spec.graph->node(spec.graph->order()[first + i]).outputs;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k] == kNoValue) continue;
      const Placement& placement = spec.memory.placements[static_cast<size_t>(outputs[k])];
      if (placement.kind != Placement::Kind::Grown) continue;
      if (finds_size(i, outputs[k]))
        taken_.push_back({i, k, placement.slot});
      else
        needs_.push_back(
            {placement.slot, static_cast<size_t>(stored_bytes(spec.graph->value(outputs[k]), symbols))});
    }
  }
}

void GrownResults::reserve(GrownMemory& memory) const {
  for (const Need& need : needs_) memory.reserve(need.slot, need.bytes);
}

int GrownResults::taken_slot(size_t step, size_t output) const {
  for (const Taken& taken : taken_)
    if (taken.step == step && taken.output == output) return taken.slot;
  return -1;
}

}  // namespace lathe
