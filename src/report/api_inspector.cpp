// SPDX-License-Identifier: Apache-2.0
#include "lathe/inspector.h"
#include "report/engine_layers.h"
#include "runtime/api_bridge.h"

namespace lathe::v1 {

struct EngineInspector::Impl {
  LayerReport report;

  // The report of one layer alone.
  LayerReport only(std::string_view name) const {
    for (const LayerInfo& layer : report.layers)
      if (layer.name == name) return {.verbosity = report.verbosity, .layers = {layer}};
    throw Error(ErrorKind::Input, ErrorFields{.what = "the engine has no such layer",
                                              .where = "layer '" + std::string(name) + "'",
                                              .hint = "layers() has the names"});
  }
};

EngineInspector::EngineInspector(const Engine& engine) {
  translate_errors([&] {
    const lathe::Engine& inner = *engine.impl().engine;
    LayerReport report = describe_engine(inner, [&](int profile) { return opt_symbols(inner, profile); });
    report.verbosity = ProfilingVerbosity::Detailed;
    impl_ = std::make_shared<Impl>(Impl{std::move(report)});
  });
}

std::vector<LayerDescription> EngineInspector::layers() const {
  std::vector<LayerDescription> result;
  for (const LayerInfo& layer : impl_->report.layers) {
    LayerDescription& d = result.emplace_back(LayerDescription{.name = layer.name,
                                                               .type = layer.type,
                                                               .tactic = layer.tactic,
                                                               .tactic_ms = layer.tactic_ms,
                                                               .fallback = layer.fallback});
    for (const Origin& origin : layer.origins) d.onnx_nodes.push_back(origin.name);
    for (const LayerTensor& t : layer.inputs) d.inputs.push_back(t.name);
    for (const LayerTensor& t : layer.outputs) d.outputs.push_back(t.name);
  }
  return result;
}
std::string EngineInspector::json() const {
  return translate_errors([&] { return layer_info_json(impl_->report); });
}
std::string EngineInspector::text() const {
  return translate_errors([&] { return layer_info_text(impl_->report); });
}
std::string EngineInspector::layer_json(std::string_view name) const {
  return translate_errors([&] { return lathe::layer_json(impl_->only(name).layers[0]); });
}
std::string EngineInspector::layer_text(std::string_view name) const {
  return translate_errors([&] { return layer_info_text(impl_->only(name)); });
}

}  // namespace lathe::v1
