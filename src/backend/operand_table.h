// SPDX-License-Identifier: Apache-2.0
//
// Where values lie at concrete shapes, and the operands of a run of layers as addresses. Constants are known
// when layers are prepared; what lies in the arena or with the caller is filled in by bind(), which costs
// nothing when the same memory comes again.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "backend/program.h"

namespace lathe {

struct ValueAddress {
  enum class Space : uint8_t { None, Arena, Binding, Constant, Slot };
  Space space = Space::None;
  int binding = -1;             // Binding: which
  ValueId constant = kNoValue;  // Constant: which
  int slot = -1;                // Slot: which
  int64_t offset = 0;           // bytes from the beginning of the arena, binding, constant or slot
};
ValueAddress value_address(const ProgramSpec& spec, ValueId value, const SymbolValues& symbols);

class OperandTable {
 public:
  // Where a constant that layers read in place begins, in backend memory.
  using ConstantAddress = std::function<const std::byte*(ValueId)>;

  explicit OperandTable(size_t layers) : layers_(layers) {}
  // Looks up the operands of layer number `index`. Views need no place.
  void place(size_t index, const Node& node, const ProgramSpec& spec, const SymbolValues& symbols,
             const ConstantAddress& constant);
  void bind(std::byte* arena, std::span<void* const> bindings, std::span<std::byte* const> slots = {});

  // In the node's order; null where absent or where the tactic packed a constant.
  std::span<const void* const> inputs(size_t index) const { return layers_[index].inputs; }
  std::span<void* const> outputs(size_t index) const { return layers_[index].outputs; }

 private:
  struct Operands {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
  };
  struct Patch {
    size_t layer = 0, operand = 0;
    bool output = false;
    int binding = -1, memory_slot = -1;  // -1 both: the arena
    int64_t offset = 0;
  };
  std::vector<Operands> layers_;
  std::vector<Patch> patches_;
  std::byte* bound_arena_ = nullptr;
  std::vector<void*> bound_;
  std::vector<std::byte*> bound_slots_;
};

}  // namespace lathe
