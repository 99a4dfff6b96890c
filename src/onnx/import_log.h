// SPDX-License-Identifier: Apache-2.0
//
// The lines of the verbose log about an import, in the words of TensorRT's parser.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/observer.h"
#include "ir/graph.h"
#include "onnx/model.h"

namespace lathe::onnx {

class ImportLog {
 public:
  explicit ImportLog(Observer& observer) : observer_(observer) {}

  void input(const Graph& graph, const std::string& name, ValueId id);
  void initializer(const std::string& name);
  // `values`: the node's inputs or outputs, in their order.
  void node_begins(const Graph& graph, const NodeProto& node, const std::string& name,
                   const std::vector<ValueId>& values);
  void node_ends(const Graph& graph, const NodeProto& node, const std::string& name,
                 const std::vector<ValueId>& values);
  void output(const std::string& name);
  void output_is_input(const std::string& name, const std::string& output);
  // `shapes`: the output that has the shapes of a ragged one.
  void output_is_found(const std::string& name, const std::string& shapes) {
    note("Output '" + name + "' is a sequence whose length only a run finds: " +
         (shapes.empty() ? "its tensors are the slices of one tensor."
                         : "it has all elements of its tensors, one tensor behind the other, and output '" +
                               shapes + "' has a row for the shape of each."));
  }
  // `prefix`: of the names in the body or function whose nodes these are.
  void nodes_sorted(const std::string& prefix);
  void node_is_dead(const std::string& name) { verbose("No output needs node " + name + ": it is left out"); }
  void note(std::string text) { observer_.log(Severity::Info, std::move(text)); }

 private:
  void verbose(std::string text) { observer_.log(Severity::Verbose, std::move(text)); }

  Observer& observer_;
};

}  // namespace lathe::onnx
