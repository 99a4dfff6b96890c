// SPDX-License-Identifier: Apache-2.0
//
// Structure: what could have been one layer, what hides inside one, and what should not run at all.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "explorer/core/findings.h"
#include "explorer/core/rule_parts.h"

namespace lathe::explorer {
namespace {

bool is_pointwise(const Layer& layer) {
  return layer.type == "PointWise" || layer.type == "ElementWise" || layer.type == "Activation" ||
         layer.type == "Unary" || layer.type == "Scale" || layer.type == "kgen";
}

}  // namespace

std::vector<Finding> find_unfused_pointwise(const EngineData& engine) {
  const auto layers = layers_where(engine, is_pointwise);
  const double total = engine.statistics.layer_sum_ms.value_or(0), time = time_of(engine, layers);
  if (layers.empty() || total <= 0 || time < 0.1 * total) return {};
  Finding f{"pointwise-layers", fmt::format("Pointwise layers take {:.0f} % of the time", 100 * time / total),
            "", "low"};
  f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
    return fmt::format("{}: {}", short_name(l), time_words(engine, l.average_ms().value_or(0)));
  });
  f.layers = layers;
  f.gain_ms = round_ms(time / 2);
  f.gain_basis = "half of their time, if they fuse into the layers before them";
  f.action =
      "Look why each was not fused: a result with several readers, a broadcast, another type, or an unknown "
      "chain of operators.";
  f.command = build_command(engine, "--skipInference --verbose") + " | grep -i fusion";
  return {f};
}

// Several products that read one tensor and have weights of their own: Q, K and V.
std::vector<Finding> find_split_projections(const EngineData& engine) {
  std::vector<int> layers;
  std::vector<std::string> evidence;
  for (const auto& tensor : engine.tensors) {
    std::vector<int> products;
    for (const int reader : tensor.consumers) {
      const Layer& layer = engine.layers[static_cast<size_t>(reader)];
      const bool first = !layer.inputs.empty() &&
                         engine.tensors[static_cast<size_t>(layer.inputs[0].tensor)].name == tensor.name;
      if (is_matmul(layer) && layer.weights_bytes > 0 && first) products.push_back(reader);
    }
    if (products.size() < 3) continue;
    evidence.push_back(fmt::format("{} is read by {} products: {} ...", tensor.name, products.size(),
                                   short_name(engine.layers[static_cast<size_t>(products[0])])));
    layers.insert(layers.end(), products.begin(), products.end());
  }
  if (layers.empty()) return {};
  Finding f{"split-projections",
            fmt::format("Products of one tensor that could be one: {}", count_text(evidence.size(), "group")),
            "low", "low"};
  if (evidence.size() > 3) {
    const size_t more = evidence.size() - 3;
    evidence.resize(3);
    evidence.push_back(fmt::format("and {} more", more));
  }
  f.evidence = std::move(evidence);
  std::sort(layers.begin(), layers.end());
  if (engine.statistics.layer_sum_ms) {
    f.gain_ms = round_ms(0.1 * time_of(engine, layers));
    f.gain_basis = "a tenth of their time: the operand is read once and one launch serves all";
  }
  f.layers = std::move(layers);
  f.action = "Export the model with one projection for Q, K and V.";
  return {f};
}

std::vector<Finding> find_shape_work(const EngineData& engine) {
  const auto layers = layers_where(engine, [](const Layer& l) { return l.kind == "shape"; });
  const double total = engine.statistics.layer_sum_ms.value_or(0), time = time_of(engine, layers);
  if (layers.empty() || total <= 0 || time < 0.03 * total) return {};
  Finding f{"shape-work", fmt::format("Computing shapes takes {:.0f} % of the time", 100 * time / total), "",
            "medium"};
  f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
    return fmt::format("{}: {}", short_name(l), time_words(engine, l.average_ms().value_or(0)));
  });
  f.layers = layers;
  f.gain_ms = time;
  f.gain_basis = "their whole time, with constant shapes";
  f.action = "Fix the shapes that do not change, here to those of the run.";
  EngineData fixed = engine;
  for (auto& binding : fixed.bindings) {
    if (!binding.profiles.empty()) binding.profiles = {{binding.shape, binding.shape, binding.shape}};
  }
  f.command = build_command(fixed, "--skipInference");
  return {f};
}

std::vector<Finding> find_opaque_blocks(const EngineData& engine) {
  const auto layers = layers_where(engine, [](const Layer& l) { return l.kind == "opaque"; });
  if (layers.empty()) return {};
  Finding f{"opaque-block",
            fmt::format("Blocks whose inside the file does not show: {}", count_text(layers.size(), "layer")),
            "info", "high"};
  f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
    return l.average_ms() ? fmt::format("{}: {}", short_name(l), time_words(engine, *l.average_ms()))
                          : short_name(l);
  });
  f.layers = layers;
  f.action = "Build with TensorRT 10 or later, which lists the kernels of such blocks, or with Lathe.";
  return {f};
}

std::vector<Finding> find_inaccurate_layers(const EngineData& engine) {
  const auto layers = layers_where(engine, [](const Layer& l) {
    return l.error && l.error->local && l.error->limit && *l.error->local > *l.error->limit;
  });
  if (layers.empty()) return {};
  Finding f{"inaccurate-layer", fmt::format("Out of tolerance: {}", count_text(layers.size(), "layer")),
            "high", "high"};
  f.evidence = slowest_lines(engine, layers, [](const Layer& l) {
    return fmt::format("{}: local error {:.2e}, allowed {:.2e}", short_name(l), *l.error->local,
                       *l.error->limit);
  });
  f.layers = layers;
  f.action = "Build without the narrow type, or keep these nodes in FP32 in the model, and compare again.";
  f.command = diff_command(engine);
  return {f};
}

}  // namespace lathe::explorer
