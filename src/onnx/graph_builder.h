// SPDX-License-Identifier: Apache-2.0
//
// Adds core nodes while a model is imported, and keeps shape arithmetic out of the graph: a node whose result
// is known as dims becomes a constant or a ShapeTensor, and a small node on constants is computed at once. So
// Shape -> Gather -> Concat -> Reshape leaves nothing but the Reshape.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/edit.h"
#include "ops/op_def.h"

namespace lathe::onnx {

using Values = std::vector<ValueId>;

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph) : graph_(graph), editor_(graph) {}

  const Graph& graph() const { return graph_; }
  GraphEditor& editor() { return editor_; }
  const Value& value(ValueId id) const { return graph_.value(id); }

  // `name` is made unique. Absent inputs are kNoValue.
  Values add(std::string_view name, Op op, Values inputs, const std::vector<Origin>& origins,
             size_t output_count = 1);
  ValueId add_constant(std::string_view name, Tensor tensor);
  // A copy of a value, never folded: for graph outputs that are inputs or constants.
  ValueId add_identity(std::string_view name, ValueId value);
  // Makes a value an output of that name. One that is an input, a constant or an output already gets there
  // through a copy.
  void add_output(const std::string& name, ValueId value);
  std::string unique_name(std::string_view wanted);
  // Values that are strings (onnx/strings.h).
  void mark_strings(ValueId id) { strings_.insert(id); }
  bool is_strings(ValueId id) const { return strings_.contains(id); }

 private:
  bool fold(const Op& op, const Values& inputs, const std::vector<ResultInfo>& results, std::string_view name,
            Values& out);

  Graph& graph_;
  GraphEditor editor_;
  std::set<std::string, std::less<>> names_;
  std::set<ValueId> strings_;
};

// True when a dim among `dims` is known only after a layer has run.
bool is_data_dependent(const Shape& dims);

}  // namespace lathe::onnx
