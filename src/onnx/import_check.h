// SPDX-License-Identifier: Apache-2.0
//
// For tests: a small model read, or the error that it gives.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "onnx/import.h"
#include "onnx/test_model.h"
#include "ops/interpreter.h"

namespace lathe::onnx {

// What an import tells, a line each.
struct Notes final : Observer {
  std::string text;
  void on(const Event& event) override {
    if (const auto* log = std::get_if<Message>(&event)) text += log->text + "\n";
  }
};

inline Tensor floats(Extents extents, const std::vector<float>& values) {
  return Tensor::from<float>(std::move(extents), values);
}

inline Graph import_graph(const TestModel& model) {
  NullObserver observer;
  const std::string bytes = model.bytes();
  return import_onnx(as_bytes(bytes), {}, observer).graph;
}

// A model read, which the interpreter runs. The bytes stay alive as long as the graph, whose constants may
// point into them.
struct ImportedGraph {
  explicit ImportedGraph(const TestModel& model, const ImportOptions& options = {}) : bytes(model.bytes()) {
    NullObserver observer;
    graph = import_onnx(as_bytes(bytes), {}, observer, nullptr, options).graph;
  }
  TestModel::Names names(const std::vector<ValueId>& ids) const {
    TestModel::Names all;
    for (const ValueId id : ids) all.push_back(graph.value(id).name);
    return all;
  }
  std::vector<std::vector<double>> run(const std::vector<Tensor>& inputs) const {
    std::vector<std::vector<double>> all;
    for (const Tensor& output : interpret(graph, inputs)) all.push_back(output.to_doubles());
    return all;
  }
  std::string bytes;
  Graph graph;
};

inline std::string import_error(const TestModel& model) {
  try {
    import_graph(model);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "no error";
}

inline void expect_says(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace lathe::onnx
