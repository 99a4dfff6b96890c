// SPDX-License-Identifier: Apache-2.0
//
// Adds what an ONNX operator stands for to a graph, without a model around it: what the importers are for a
// file, this is for programs that make a network call by call.
#pragma once

#include <string>
#include <string_view>

#include "ir/plugin.h"
#include "onnx/attribute.h"
#include "onnx/graph_builder.h"

namespace lathe::onnx {

struct OperatorCall {
  std::string_view op_type;  // "Conv"; of another domain: "com.microsoft::FusedMatMul"
  std::string name;          // of the layer
  Values inputs;             // kNoValue: absent
  Attributes attributes = {};
  size_t outputs = 1;
  const PluginSource* plugins = nullptr;  // with operators of their own
};

// The outputs. Operators mean what the newest opset says. Throws Input, naming the layer, its operator and
// inputs.
Values call_operator(GraphBuilder& builder, const OperatorCall& call);

}  // namespace lathe::onnx
