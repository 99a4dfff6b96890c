// SPDX-License-Identifier: Apache-2.0
//
// Constants that follow from the model's weights, as an engine file says them: a graph without inputs, whose
// outputs are the constants (ir/recipe.h is how they stand in memory).
#pragma once

#include <map>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/recipe.h"

namespace lathe {

class MadeConstantsWriter {
 public:
  // Which output of the graph is the tensor, which has a recipe.
  int64_t add(const Tensor& tensor);
  const Graph& graph() const { return graph_; }

 private:
  ValueId value_of(const Tensor& tensor);
  ValueId leaf(const Tensor& tensor);

  Graph graph_;
  std::map<const Recipe*, ValueId> nodes_;
  std::map<const std::byte*, std::vector<ValueId>> leaves_;  // by where the bytes lie
  std::map<ValueId, int64_t> outputs_;
};

// The outputs of such a graph, by their recipes. Throws Input where it is no such graph, or asks for more
// memory than passes do: it comes from a file.
std::vector<Tensor> made_constants(const Graph& graph);

}  // namespace lathe
