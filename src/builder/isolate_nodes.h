// SPDX-License-Identifier: Apache-2.0
//
// A part of a model as a model of its own, with the operands that it has in a run: what reproduces an error
// in the smallest file.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"

namespace lathe {

struct IsolatedNodes {
  Graph graph;                 // static shapes; inputs: what the nodes read, constants aside
  std::vector<Tensor> inputs;  // in the graph's order, from the run
};

// The nodes that implement one of the ONNX nodes `origins`. `inputs`: of a run of the model in the reference
// interpreter. Throws Input when there are none.
IsolatedNodes isolate_nodes(const Graph& model, const std::set<std::string>& origins,
                            std::span<const Tensor> inputs, ThreadPool* pool);

}  // namespace lathe
