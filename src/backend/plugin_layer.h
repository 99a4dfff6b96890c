// SPDX-License-Identifier: Apache-2.0
//
// Custom operators as layers, for all backends: which tactics a plugin offers, and its operands at concrete
// extents.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "backend/tactic.h"
#include "ir/plugin_use.h"

namespace lathe {

inline constexpr std::string_view kPluginRunner = "Plugin";

// The tactics of the plugin, or one, for each type and format that it takes; or one that is refused with the
// reason. Nothing for other operators.
std::vector<Tactic> list_plugin(const LayerQuery& query, PluginDevice device);

// What the plugin is told of the layer that runs with this tactic.
PluginUse plugin_use(const LayerQuery& query, const Tactic& tactic, PluginDevice device);

class PluginLayer {
 public:
  // Extents with data-dependent dims at their upper bound. `layer` is a node of `graph`, which outlives this.
  PluginLayer(const Graph& graph, NodeId layer, const Tactic& tactic, const PluginUse& use,
              const std::vector<Extents>& inputs, const std::vector<Extents>& outputs);

  const PluginCode& code() const { return *code_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  int64_t work_items() const { return work_items_; }
  // Whether a run finds sizes.
  bool finds_sizes() const { return finds_sizes_; }
  // Bytes of an output at its upper bound, or at the extents that a run found.
  size_t output_bytes(size_t index) const { return output_bytes(index, outputs_[index].extents); }
  size_t output_bytes(size_t index, const Extents& extents) const;
  // Does the work items begin to end. The extents of the outputs afterwards.
  std::vector<Extents> run(std::span<const void* const> inputs, std::span<void* const> outputs,
                           void* workspace, int64_t begin, int64_t end, void* stream = nullptr) const;
  // The new symbols that these extents of the outputs determine.
  void resolve(const std::vector<Extents>& found, SymbolValues& values) const;

 private:
  std::shared_ptr<const PluginCode> code_;
  PluginDevice device_;
  std::vector<PluginOperand> inputs_, outputs_;
  std::vector<Shape> output_shapes_;
  std::vector<std::string> output_names_;
  int64_t workspace_bytes_ = 0, work_items_ = 1;
  bool finds_sizes_ = false;
};

}  // namespace lathe
