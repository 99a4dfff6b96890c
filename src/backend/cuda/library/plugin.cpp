// SPDX-License-Identifier: Apache-2.0
//
// Custom operators on a GPU: the plugin enqueues on the stream. Their workspace is the layer's scratch
// memory.
#include "backend/cuda/kernel.h"
#include "backend/plugin_layer.h"

namespace lathe::cuda {
namespace {

class PreparedPlugin final : public PreparedLayer {
 public:
  PreparedPlugin(PluginLayer layer, std::string name) : layer_(std::move(layer)), name_(std::move(name)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(layer_.workspace_bytes()); }
  void enqueue(const LayerArgs& args, CUstream stream) const override {
    layer_.run(args.inputs, args.outputs, args.scratch, 0, 1, stream);
  }
  Support capturable() const override {
    if (layer_.code().capturable()) return {};
    return Support::no("'" + name_ + "' is a plugin that must not be recorded into a graph");
  }

 private:
  const PluginLayer layer_;
  const std::string name_;
};

class PluginKernel final : public LayerKernel {
 public:
  PluginKernel(const LayerQuery& query, const Tactic& tactic)
      : graph_(query.graph),
        layer_(query.node),
        tactic_(tactic),
        use_(plugin_use(query, tactic, PluginDevice::Cuda)) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedPlugin>(
        PluginLayer(graph_, layer_, tactic_, use_, context.inputs, context.outputs),
        graph_.node(layer_).name);
  }

 private:
  const Graph& graph_;
  const NodeId layer_;
  const Tactic tactic_;
  const PluginUse use_;
};

std::vector<Tactic> list_plugin(const LayerQuery& query, const Device&) {
  return list_plugin(query, PluginDevice::Cuda);
}

std::unique_ptr<LayerKernel> make_plugin(const LayerQuery& query, const Tactic& tactic, const Device&,
                                         const PackContext&) {
  return std::make_unique<PluginKernel>(query, tactic);
}

}  // namespace

TacticFamily plugin_tactics() {
  return {kPluginRunner, list_plugin, make_plugin};
}

}  // namespace lathe::cuda
