// SPDX-License-Identifier: Apache-2.0
//
// Shapes across the plugin interface: dims as handles, which live as long as one call of infer().
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "ir/plugin.h"
#include "lathe/plugin_abi.h"

namespace lathe::plugin {

class ShapeExchange {
 public:
  // `node` names data-dependent dims.
  explicit ShapeExchange(std::string_view node);
  ShapeExchange(const ShapeExchange&) = delete;
  ShapeExchange& operator=(const ShapeExchange&) = delete;

  const lathe_plugin_dims& functions() const { return functions_; }
  // Lives as long as this.
  lathe_plugin_shape to_abi(const PluginType& type);
  // Throws Input for what is no type or shape. `what`: "output 0".
  PluginType from_abi(const lathe_plugin_shape& shape, const std::string& what) const;

 private:
  static ShapeExchange& of(void* self) { return *static_cast<ShapeExchange*>(self); }
  const lathe_plugin_dim* keep(const Dim& dim);
  // Null for a pointer that is none of ours.
  const Dim* find(const lathe_plugin_dim* handle) const;
  const lathe_plugin_dim* operate(int operation, const lathe_plugin_dim* a, const lathe_plugin_dim* b);

  std::string node_;
  int data_dependent_ = 0;
  std::deque<Dim> dims_;
  std::deque<std::vector<const lathe_plugin_dim*>> contents_;
  lathe_plugin_dims functions_{};
};

}  // namespace lathe::plugin
