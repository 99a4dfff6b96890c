// SPDX-License-Identifier: Apache-2.0
//
// In which order the nodes of a graph, a body or a function are imported. Files are meant to list them in
// topological order, but some tools append nodes where they please.
#pragma once

#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "onnx/model.h"

namespace lathe::onnx {

struct NodeOrder {
  std::vector<size_t>
      nodes;  // numbers of those that an output needs, each behind those whose results it reads
  std::vector<size_t> dead;  // numbers of those that no output needs
  bool sorted = false;       // the file's order was another one
};

// `outputs`: the names that the list is there for. `given` says whether a name has a value before any of the
// nodes. Order and results of a cycle are the file's: the name that nothing produced in time is found when it
// is looked up. Throws Input when two nodes produce the same name.
NodeOrder order_nodes(const std::vector<NodeProto>& nodes, const std::vector<std::string_view>& outputs,
                      const std::function<bool(std::string_view)>& given);

// What a node reads: its inputs, and what its bodies read of the graphs around them.
std::set<std::string_view> names_read(const NodeProto& node);

}  // namespace lathe::onnx
