// SPDX-License-Identifier: Apache-2.0
//
// State that a program appends to in place (backend/appending.h): which of its outputs can be, and what
// changes in the layers around them.
#pragma once

#include <span>
#include <vector>

#include "backend/appending.h"
#include "backend/cpu/run/program.h"

namespace lathe::cpu {

// What an execution does otherwise than its program says. Nothing unless it appends.
struct Appended {
  std::vector<Room> rooms;            // by ValueId
  std::vector<bool> needless_layers;  // copies of what is in its place already, by layer

  bool empty() const { return rooms.empty(); }
  Room room(ValueId value) const {
    return rooms.empty() || value == kNoValue ? Room{} : rooms[static_cast<size_t>(value)];
  }
  // Of all operands; empty when none has room.
  std::vector<Room> rooms_of(std::span<const ValueId> values) const;
  bool is_needless(size_t layer) const { return !needless_layers.empty() && needless_layers[layer]; }
};

AppendForm append_form(const CpuProgram& program, size_t input, size_t output);
Appended find_appended(const CpuProgram& program, std::span<const Append> appends);

// The elements of a tensor whose memory has room, one behind the other.
Tensor gather_rows(DType dtype, const Extents& extents, const Room& room, const std::byte* data);

}  // namespace lathe::cpu
