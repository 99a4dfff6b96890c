// SPDX-License-Identifier: Apache-2.0
//
// Custom operators on the CPU: the team shares out the parts into which the plugin divides its work. One that
// finds sizes runs on one thread into memory of its upper bound, from which what it found is taken.
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernel.h"
#include "backend/plugin_layer.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kAlignment = 64;

class PreparedPlugin final : public PreparedLayer {
 public:
  PreparedPlugin(PluginLayer layer, int threads) : layer_(std::move(layer)), threads_(threads) {}

  int members(int available) const override {
    return static_cast<int>(std::clamp<int64_t>(layer_.work_items(), 1, std::min(available, threads_)));
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(bytes_per_member()) * static_cast<size_t>(members(threads_));
  }
  bool takes_memory() const override { return layer_.finds_sizes(); }

  void run(const LayerArgs& args, const Worker& worker) const override {
    std::byte* workspace = args.scratch ? args.scratch + worker.index * bytes_per_member() : nullptr;
    if (layer_.finds_sizes()) return find_sizes(args, workspace);
    const Worker::Range part = worker.slice(layer_.work_items());
    if (part.begin < part.end) layer_.run(args.inputs, args.outputs, workspace, part.begin, part.end);
  }
  void resolve(const LayerArgs&, SymbolValues& values) const override { layer_.resolve(found_, values); }

 private:
  int64_t bytes_per_member() const {
    return (layer_.workspace_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }

  void find_sizes(const LayerArgs& args, void* workspace) const {
    std::vector<std::vector<std::byte>> rooms;
    std::vector<void*> outputs;
    for (size_t i = 0; i < args.outputs.size(); ++i)
      outputs.push_back(rooms.emplace_back(layer_.output_bytes(i)).data());
    found_ = layer_.run(args.inputs, outputs, workspace, 0, 1);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t bytes = layer_.output_bytes(i, found_[i]);
      void* place = args.results ? args.results->take(i, bytes) : nullptr;
      if (!place) place = args.outputs[i];
      if (place && bytes > 0) std::memcpy(place, outputs[i], bytes);
    }
  }

  const PluginLayer layer_;
  const int threads_;
  mutable std::vector<Extents> found_;  // written by run(), read by resolve(), both on member 0
};

class PluginKernel final : public LayerKernel {
 public:
  PluginKernel(const LayerQuery& query, const Tactic& tactic)
      : graph_(query.graph),
        layer_(query.node),
        tactic_(tactic),
        use_(plugin_use(query, tactic, PluginDevice::Cpu)) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedPlugin>(
        PluginLayer(graph_, layer_, tactic_, use_, context.inputs, context.outputs), context.threads);
  }

 private:
  const Graph& graph_;
  const NodeId layer_;
  const Tactic tactic_;
  const PluginUse use_;
};

std::vector<Tactic> list_plugin(const LayerQuery& query, const Machine&) {
  return list_plugin(query, PluginDevice::Cpu);
}

std::unique_ptr<LayerKernel> make_plugin(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                         const PackContext&) {
  return std::make_unique<PluginKernel>(query, tactic);
}

}  // namespace

TacticFamily plugin_tactics() {
  return {kPluginRunner, list_plugin, make_plugin};
}

}  // namespace lathe::cpu
