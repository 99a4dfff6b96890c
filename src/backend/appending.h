// SPDX-License-Identifier: Apache-2.0
//
// Output that continues an input in the same memory: `present = Concat(past, new)` of a decoder's step. The
// past stays where it is and the layer writes what is new behind it.
//
// The memory has room for more rows along the axis than the tensors have. Along dims in front of the axis the
// tensors are then not dense: past [2, 5, 8] with room for 64 rows along axis 1 has its second part at
// element 64 * 8, not 5 * 8. Kernels that read such operands have to know it (cpu/kernel.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/tactic.h"
#include "ir/shape.h"

namespace lathe {

// For how many rows along an axis a tensor has memory; 0: for those that it has.
struct Room {
  size_t axis = 0;
  int64_t rows = 0;
  bool operator==(const Room&) const = default;
};

inline Extents with_room(Extents extents, const Room& room) {
  if (room.rows > 0) extents[room.axis] = room.rows;
  return extents;
}

// An output and the input that it continues, by their numbers.
struct Append {
  size_t input = 0, output = 0;
  Room room = {};
  bool operator==(const Append&) const = default;
};

// What a program says of a pair.
struct AppendForm {
  // Why the output is not the input and what is new behind it; empty: it is, along the axis.
  std::string reason;
  size_t axis = 0;
  // The reader that wants dense memory, as text; empty: there is none. It does not matter where all dims in
  // front of the axis are 1.
  std::string dense_reader;
};

// No, with a reason, for a Concat in another format than the linear one, when its first operand is an input
// of the model, of any length, and its result an output, both linear: all that was there would be converted
// twice in every step, and state could not be appended to.
Support may_convert(const LayerQuery& query, const Format& format);

// An execution that can append in place.
class Appending {
 public:
  virtual ~Appending() = default;
  virtual AppendForm append_form(size_t input, size_t output) const = 0;
  // From the next set_shapes() on these outputs are bound to the memory of their inputs. The form of each
  // pair must allow it.
  virtual void append_in_place(const std::vector<Append>& appends) = 0;
};

}  // namespace lathe
