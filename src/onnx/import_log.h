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
  ImportLog(const Graph& graph, Observer& observer) : graph_(graph), observer_(observer) {}

  void input(const std::string& name, ValueId id);
  void initializer(const std::string& name);
  // `values`: those of the node's inputs or outputs, in their order.
  void node_begins(const NodeProto& node, const std::string& name, const std::vector<ValueId>& values);
  void node_ends(const NodeProto& node, const std::string& name, const std::vector<ValueId>& values);
  void output(const std::string& name);
  void note(std::string text) { observer_.log(Severity::Info, std::move(text)); }

 private:
  void verbose(std::string text) { observer_.log(Severity::Verbose, std::move(text)); }
  std::string dims(ValueId id) const;
  std::string tensors(const std::vector<std::string_view>& names, const std::vector<ValueId>& values) const;

  const Graph& graph_;
  Observer& observer_;
};

}  // namespace lathe::onnx
