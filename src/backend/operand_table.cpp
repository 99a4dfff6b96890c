// SPDX-License-Identifier: Apache-2.0
#include "backend/operand_table.h"

#include <algorithm>

namespace lathe {

ValueAddress value_address(const ProgramSpec& spec, ValueId id, const SymbolValues& symbols) {
  const auto& placements = spec.memory.placements;
  const Placement* placement = &placements[static_cast<size_t>(id)];
  int64_t offset = 0;
  if (placement->kind == Placement::Kind::View) {
    offset = placement->view_offset.evaluate(symbols);
    id = placement->base;
    placement = &placements[static_cast<size_t>(id)];
  }
  using Space = ValueAddress::Space;
  switch (placement->kind) {
    case Placement::Kind::Arena:
      return {.space = Space::Arena, .offset = placement->offset + offset};
    case Placement::Kind::Binding:
      return {.space = Space::Binding, .binding = placement->binding, .offset = placement->offset + offset};
    case Placement::Kind::Constant:
      return {.space = Space::Constant, .constant = id, .offset = offset};
    case Placement::Kind::Grown:
      return {.space = Space::Slot, .slot = placement->slot, .offset = offset};
    default:
      return {};
  }
}

void OperandTable::place(size_t index, const Node& node, const ProgramSpec& spec, const SymbolValues& symbols,
                         const ConstantAddress& constant) {
  Operands& operands = layers_[index];
  operands.inputs.assign(node.inputs.size(), nullptr);
  operands.outputs.assign(node.outputs.size(), nullptr);
  const auto place_one = [&](ValueId id, size_t slot, bool output) {
    if (id == kNoValue) return;
    const ValueAddress address = value_address(spec, id, symbols);
    if (address.space == ValueAddress::Space::Constant)
      operands.inputs[slot] = constant(address.constant) + address.offset;
    else if (address.space != ValueAddress::Space::None)
      patches_.push_back({index, slot, output, address.binding, address.slot, address.offset});
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) place_one(node.inputs[i], i, false);
  for (size_t i = 0; i < node.outputs.size(); ++i) place_one(node.outputs[i], i, true);
}

void OperandTable::bind(std::byte* arena, std::span<void* const> bindings,
                        std::span<std::byte* const> slots) {
  if (arena == bound_arena_ && std::equal(bindings.begin(), bindings.end(), bound_.begin(), bound_.end()) &&
      std::equal(slots.begin(), slots.end(), bound_slots_.begin(), bound_slots_.end()))
    return;
  for (const Patch& patch : patches_) {
    std::byte* base = arena;
    if (patch.binding >= 0) base = static_cast<std::byte*>(bindings[static_cast<size_t>(patch.binding)]);
    if (patch.memory_slot >= 0) base = slots[static_cast<size_t>(patch.memory_slot)];
    std::byte* const address = base == nullptr ? nullptr : base + patch.offset;
    Operands& operands = layers_[patch.layer];
    if (patch.output)
      operands.outputs[patch.operand] = address;
    else
      operands.inputs[patch.operand] = address;
  }
  bound_arena_ = arena;
  bound_.assign(bindings.begin(), bindings.end());
  bound_slots_.assign(slots.begin(), slots.end());
}

}  // namespace lathe
