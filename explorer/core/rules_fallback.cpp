// SPDX-License-Identifier: Apache-2.0
//
// Layers that no kernel of the device can run: they run on the reference implementation, which is there to be
// right, an element at a time. One of them may take longer than all others together.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "explorer/core/decimal.h"
#include "explorer/core/findings.h"
#include "explorer/core/rule_parts.h"
#include "explorer/core/text.h"

namespace lathe::explorer {

std::vector<Finding> find_reference_layers(const EngineData& engine) {
  const auto layers = layers_where(engine, [](const Layer& l) { return !l.fallback.empty(); });
  if (layers.empty()) return {};
  const double time = time_of(engine, layers), total = engine.statistics.layer_sum_ms.value_or(0);
  Finding f{"reference-layers",
            fmt::format("On the slow reference implementation: {}", count_text(layers.size(), "layer")),
            "high", "high"};
  if (total > 0) f.title += fmt::format(", {:.0f} % of the time", 100 * time / total);
  f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
    return fmt::format("{}: {}{}", short_name(l), l.time ? time_words(engine, l.time->average_ms) + ", " : "",
                       l.fallback);
  });
  f.layers = layers;
  if (total > 0) {
    f.gain_ms = round_ms(0.9 * time);
    f.gain_basis = "nine tenths of their time: a kernel is ten times faster at least";
  }
  f.action =
      "Use a type that the device has kernels for (FP32 always has), or move what they compute out of the "
      "model; "
      "--failOnFallback makes a build fail instead.";
  return {f};
}

// Ours alone: the builder wrote why the layer reads floats where the model or the build allows less, or why a
// Q or DQ is a layer.
std::vector<Finding> find_higher_precision(const EngineData& engine) {
  const auto text = [](const Layer& l, const char* key) {
    const auto found = l.attributes->find(key);
    return found != l.attributes->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto layers =
      layers_where(engine, [&](const Layer& l) { return !text(l, "PrecisionReason").empty(); });
  if (layers.empty()) return {};
  const double time = time_of(engine, layers), total = engine.statistics.layer_sum_ms.value_or(0);
  Finding f{"higher-precision",
            fmt::format("In a higher precision than is allowed: {}", count_text(layers.size(), "layer")),
            "medium", "high"};
  if (total > 0) f.title += fmt::format(", {:.0f} % of the time", 100 * time / total);
  f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
    const std::string hint = text(l, "PrecisionHint");
    return fmt::format("{}: {}{}", short_name(l), text(l, "PrecisionReason"),
                       hint.empty() ? "" : "; would help: " + hint);
  });
  f.layers = layers;
  f.action = "Where a change helps, it stands with the layer; others were measured and are faster so.";
  f.command = "lathe why <engine>";
  return {f};
}

}  // namespace lathe::explorer
