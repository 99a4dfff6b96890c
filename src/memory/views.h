// SPDX-License-Identifier: Apache-2.0
//
// Which values share storage. View tactics do no work when their operands lie inside one another: a Split's
// outputs inside its input, a Concat's inputs inside its output. In-place tactics write over an input that
// nobody reads afterwards.
//
// Values that share storage form a group with one root; each member knows its byte offset inside the root. A
// merge that is impossible (an operand of two Concats, a view that must be in the caller's output buffer) is
// a conflict: the tuner inserts a copy there and asks again.
#pragma once

#include <span>
#include <vector>

#include "backend/program.h"

namespace lathe {

struct ViewConflict {
  // Input: node `node` needs its own copy of input `index`. Output: graph output number `index` must be a
  // copy.
  enum class Kind { Input, Output } kind = Kind::Input;
  NodeId node = kNoNode;
  size_t index = 0;
  bool operator==(const ViewConflict&) const = default;
};

struct Storage {
  ValueId root = kNoValue;  // itself when it is the root
  Dim offset;               // bytes inside the root
};

struct ViewAnalysis {
  std::vector<Storage> storage;         // by ValueId
  std::vector<ViewConflict> conflicts;  // empty: the graph can be placed
};

// `choices` has one entry per node in graph order.
ViewAnalysis analyze_views(const Graph& graph, std::span<const Choice> choices);

// Bytes of a value in storage, padding of blocked formats included.
Dim storage_bytes(const Value& value);
// Where input or output number `part` of a view lies inside the whole, in bytes: parts of Concat and Split in
// order, or the one part of a Slice (other operators: 0).
Dim view_offset_bytes(const Graph& graph, NodeId node, size_t part);

}  // namespace lathe
