// SPDX-License-Identifier: Apache-2.0
//
// The analysis as a trace (the "trace event" JSON that Perfetto and chrome://tracing open): an engine is a
// process, a stream a thread, a layer an event of its average time; the bytes alive are a counter. Times are
// in microseconds.
#include <fmt/format.h>

#include "base/json.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

Json name_event(const char* what, size_t engine, int64_t stream, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", engine}, {"tid", stream}, {"args", {{"name", name}}}};
}

Json layer_event(const Layer& layer, size_t engine) {
  Json arguments = {{"type", layer.type}, {"precision", layer.precision}, {"tactic", layer.tactic}};
  if (layer.flops) arguments["flops"] = *layer.flops;
  if (const auto bytes = layer.bytes()) arguments["bytes"] = *bytes;
  if (layer.roofline.verdict != "unknown") arguments["bound by"] = layer.roofline.verdict;
  if (layer.roofline.percent_of_roof) arguments["% of roof"] = *layer.roofline.percent_of_roof;
  Json nodes = Json::array();
  for (const auto& origin : layer.origins) nodes.push_back(origin.name);
  if (!nodes.empty()) arguments["ONNX nodes"] = std::move(nodes);
  return {{"ph", "X"},
          {"name", layer.name},
          {"cat", layer.is_overhead() ? layer.kind : layer.type},
          {"pid", engine},
          {"tid", layer.stream},
          {"ts", layer.time->start_ms * 1e3},
          {"dur", layer.time->average_ms * 1e3},
          {"args", std::move(arguments)}};
}

}  // namespace

std::string trace_json(const Analysis& analysis) {
  Json events = Json::array();
  for (size_t e = 0; e < analysis.engines.size(); ++e) {
    const EngineData& engine = analysis.engines[e];
    events.push_back(name_event("process_name", e, 0, engine.name));
    for (const auto& group : engine.groups.by_stream)
      events.push_back(name_event("thread_name", e,
                                  engine.layers[static_cast<size_t>(group.layers.front())].stream,
                                  "stream " + group.key));
    for (const auto& layer : engine.layers) {
      if (!layer.time || layer.time->average_ms <= 0) continue;
      events.push_back(layer_event(layer, e));
      if (engine.tensors.empty()) continue;
      events.push_back({{"ph", "C"},
                        {"name", "bytes of activations"},
                        {"pid", e},
                        {"ts", layer.time->start_ms * 1e3},
                        {"args", {{"alive", engine.memory.steps[static_cast<size_t>(layer.index)]}}}});
    }
  }
  return dump_json(Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}, -1) + "\n";
}

}  // namespace lathe::explorer
