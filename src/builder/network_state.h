// SPDX-License-Identifier: Apache-2.0
//
// What stands behind NetworkBuilder: the graph that its calls add to, or that of a body, and the networks
// around it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "builder/network.h"
#include "lathe/network.h"
#include "onnx/bodies.h"
#include "onnx/call_operator.h"

struct lathe::v1::Network::Impl {
  lathe::Network network;
};

namespace lathe::v1 {

struct NetworkTensor::State : std::enable_shared_from_this<NetworkTensor::State> {
  explicit State(Graph start)
      : graph(std::move(start)), own_builder(std::make_unique<onnx::GraphBuilder>(graph)) {}
  State(std::shared_ptr<State> around, onnx::BodyBuilder& body) : around(std::move(around)), body(&body) {}

  onnx::GraphBuilder& builder() { return body ? body->builder : *own_builder; }
  const lathe::Value& value(int32_t id) const {
    return body ? body->builder.value(id) : own_builder->value(id);
  }
  // The id in this graph of a tensor of this network or of one around it. Throws for a tensor of another one.
  ValueId resolve(const NetworkTensor& tensor, const std::string& who);
  // Of this network, or of one around it; null: there are none.
  const PluginSource* plugin_source() const {
    return plugins != nullptr ? plugins.get() : around != nullptr ? around->plugin_source() : nullptr;
  }
  // A name for a layer: the wanted one, or the operator's with a number.
  std::string layer_name(const std::string& wanted, std::string_view op_type);
  // The function that filled the body has returned.
  void close() { closed = true, body = nullptr; }

  Graph graph;  // not of a body
  std::unique_ptr<onnx::GraphBuilder> own_builder;
  std::shared_ptr<State> around;      // of a body
  onnx::BodyBuilder* body = nullptr;  // of a body, while it is filled
  bool closed = false;
  std::shared_ptr<PluginSource> plugins;
  std::map<std::string, int, std::less<>> unnamed;
};

}  // namespace lathe::v1
