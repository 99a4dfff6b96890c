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
      patches_.push_back({index, slot, output, address.binding, address.offset});
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) place_one(node.inputs[i], i, false);
  for (size_t i = 0; i < node.outputs.size(); ++i) place_one(node.outputs[i], i, true);
}

void OperandTable::bind(std::byte* arena, std::span<void* const> bindings) {
  if (arena == bound_arena_ && std::equal(bindings.begin(), bindings.end(), bound_.begin(), bound_.end()))
    return;
  for (const Patch& patch : patches_) {
    std::byte* base =
        patch.binding < 0 ? arena : static_cast<std::byte*>(bindings[static_cast<size_t>(patch.binding)]);
    Operands& operands = layers_[patch.layer];
    if (patch.output)
      operands.outputs[patch.slot] = base + patch.offset;
    else
      operands.inputs[patch.slot] = base + patch.offset;
  }
  bound_arena_ = arena;
  bound_.assign(bindings.begin(), bindings.end());
}

}  // namespace lathe
