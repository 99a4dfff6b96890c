// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/rule_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "explorer/core/decimal.h"
#include "explorer/core/text.h"

namespace lathe::explorer {

std::string layer_facts(const Layer& layer) {
  std::string text = layer.type;
  if (!layer.precision.empty()) text += ", " + layer.precision;
  if (!layer.tactic.empty()) text += ", tactic " + layer.tactic;
  return text;
}

std::string short_name(const Layer& layer) {
  return layer_label(layer.name, kLabelInText);
}

std::string time_words(const EngineData& engine, double ms) {
  const double total = engine.statistics.layer_sum_ms.value_or(0);
  if (engine.measurement.usable || total <= 0) return ms_text(ms);
  return fmt::format("{} % of the layers' time", three_digits(100 * ms / total));
}

std::string count_text(size_t count, const std::string& word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

double round_ms(double value) {
  return std::strtod(fmt::format("{:.3e}", value).c_str(), nullptr);
}

double time_of(const EngineData& engine, const std::vector<int>& layers) {
  ExactSum sum;
  for (const int index : layers) sum.add(engine.layers[static_cast<size_t>(index)].average_ms().value_or(0));
  return sum.value();
}

std::vector<int> layers_where(const EngineData& engine, const std::function<bool(const Layer&)>& holds) {
  std::vector<int> layers;
  for (const auto& layer : engine.layers) {
    if (holds(layer)) layers.push_back(layer.index);
  }
  return layers;
}

std::vector<std::string> slowest_lines(const EngineData& engine, std::vector<int> layers,
                                       const std::function<std::string(const Layer&)>& say, size_t count) {
  std::stable_sort(layers.begin(), layers.end(), [&](int a, int b) {
    return engine.layers[static_cast<size_t>(a)].average_ms().value_or(0) >
           engine.layers[static_cast<size_t>(b)].average_ms().value_or(0);
  });
  std::vector<std::string> lines;
  for (size_t i = 0; i < std::min(count, layers.size()); ++i)
    lines.push_back(say(engine.layers[static_cast<size_t>(layers[i])]));
  if (layers.size() > count) lines.push_back(fmt::format("and {} more", layers.size() - count));
  return lines;
}

bool is_convolution(const Layer& layer) {
  return layer.type.starts_with("Convolution") || layer.type == "ConvActPool" ||
         layer.type == "Deconvolution";
}
bool is_matmul(const Layer& layer) {
  return layer.type == "MatrixMultiply" || layer.type == "gemm" || layer.type == "Gemm" ||
         layer.type == "FullyConnected" || layer.type == "MatMul";
}

}  // namespace lathe::explorer
