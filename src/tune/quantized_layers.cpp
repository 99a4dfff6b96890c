// SPDX-License-Identifier: Apache-2.0
#include "tune/quantized_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tune/pbqp.h"

namespace lathe {
namespace {

// A product or convolution of values on grids.
bool is_quantized_product(const LayerQuery& query) {
  return is_product(query.layer()) && is_on_grid(query.graph, query.layer().inputs[0]);
}

bool reads_integers(const LayerQuery& query, const Tactic& tactic) {
  const ValueId input = query.layer().inputs[0];
  return is_on_grid(query.graph, input) &&
         tactic.inputs[0].dtype == query.graph.value(input).quantization->dtype;
}

// The fastest tactic that reads integers, or that reads floats.
std::optional<double> best_ms(const TunedLayer& layer, bool integers) {
  std::optional<double> best;
  for (size_t i = 0; i < layer.tactics.size(); ++i)
    if (reads_integers(layer.query, layer.tactics[i]) == integers && layer.times[i] < kImpossible &&
        (!best || layer.times[i] < *best))
      best = layer.times[i];
  return best;
}

std::string why_floats(const TunedLayer& layer, bool timed) {
  const Quantization& grid = *layer.query.graph.value(layer.query.layer().inputs[0]).quantization;
  const auto integers = best_ms(layer, true), floats = best_ms(layer, false);
  if (integers && floats && timed)
    return fmt::format("measured {:.4g} ms in floats, {:.4g} ms in {}, and what lies between layers", *floats,
                       *integers, bytes_of_grid(grid));
  if (integers) return "expected to be faster so";
  if (grid.has_floats()) {
    for (const UnusableTactic& refused : layer.refused)
      if (refused.reason.find("FP8") != std::string::npos) return refused.reason;
    return "no FP8 kernel of this device";
  }
  for (const UnusableTactic& refused : layer.refused)
    if (refused.runner.starts_with("Integer")) return refused.reason;
  return "no integer kernel of this device";
}

bool is_constant(const Graph& graph, const Node& node, size_t input) {
  return input >= node.inputs.size() || node.inputs[input] == kNoValue ||
         graph.value(node.inputs[input]).is_constant();
}

std::string name_of_first_reader(const Graph& graph, ValueId value) {
  const std::vector<NodeId> readers = graph.users(value);
  return readers.empty() ? std::string() : graph.node(readers[0]).name;
}

// A rounding in floats, which no layer in front of it took in.
bool is_rounding(const Node& node) {
  const bool is_pointwise =
      std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<PointwiseChain>(node.op);
  return is_pointwise && !node.origins.empty() &&
         std::all_of(node.origins.begin(), node.origins.end(), [](const Origin& origin) {
           return origin.op_type == "QuantizeLinear" || origin.op_type == "DequantizeLinear";
         });
}

LayerNote why_rounding_stays(const Graph& graph, const Node& node) {
  const Value& input = graph.value(node.inputs[0]);
  if (input.producer == kNoNode)
    return {"it rounds '" + input.name + "', an input of the network, and there is no layer in front of it",
            "give the engine integers: an input of the model that is quantised already"};
  const std::string producer = graph.node(input.producer).name;
  if (graph.users(node.inputs[0]).size() > 1 || graph.is_output(node.inputs[0]))
    return {"others read what '" + producer + "' gives as it is",
            "quantise all that read '" + input.name + "'"};
  return {"'" + producer + "' takes no rounding in", ""};
}

}  // namespace

bool is_on_grid(const Graph& graph, ValueId id) {
  return id != kNoValue && graph.value(id).quantization.has_value();
}

std::string_view bytes_of_grid(const Quantization& grid) {
  return grid.has_floats() ? "FP8" : "integers";
}

bool is_product(const Node& node) {
  return std::holds_alternative<Conv>(node.op) || std::holds_alternative<MatMul>(node.op);
}

bool stores_integers(const LayerQuery& query, const Tactic& tactic) {
  const Node& node = query.layer();
  const auto any = [&](const std::vector<ValueId>& values, const std::vector<TensorType>& types) {
    for (size_t i = 0; i < values.size() && i < types.size(); ++i)
      if (is_on_grid(query.graph, values[i]) && !query.graph.value(values[i]).is_constant() &&
          types[i].dtype == query.graph.value(values[i]).quantization->dtype)
        return true;
    return false;
  };
  return any(node.inputs, tactic.inputs) || any(node.outputs, tactic.outputs);
}

std::optional<LayerNote> reason_to_stay(const Graph& graph, const Node& node) {
  if (is_rounding(node)) return why_rounding_stays(graph, node);
  const auto* q = std::get_if<QuantizeLinear>(&node.op);
  const auto* dq = std::get_if<DequantizeLinear>(&node.op);
  if (!q && !dq) return std::nullopt;
  if (!is_constant(graph, node, 1) || !is_constant(graph, node, 2))
    return LayerNote{"its scale or zero point is computed",
                     "constant scales: `lathe quantize` finds them from samples"};
  if ((q ? q->block_size : dq->block_size) != 0)
    return LayerNote{"it has a scale for each block", "one scale for the tensor, or one for each channel"};
  const DType integer = q ? q->to : graph.value(node.inputs[0]).dtype;
  if (integer != DType::Int8 && integer != DType::UInt8 && integer != DType::Float8E4M3FN)
    return LayerNote{"no kernel computes in " + std::string(dtype_name(integer)),
                     "int8, uint8 or float8e4m3fn"};
  if (q && integer == DType::Float8E4M3FN && !q->saturate)
    return LayerNote{"what is out of its range becomes NaN (saturate=0)",
                     "saturate=1, as ONNX has by default"};
  if (q && graph.is_output(node.outputs[0]))
    return LayerNote{"its integers are an output of the network", "an output behind its DequantizeLinear"};
  if (q)
    return LayerNote{"'" + name_of_first_reader(graph, node.outputs[0]) + "' reads its integers as such",
                     "a DequantizeLinear between both"};
  const NodeId producer = graph.value(node.inputs[0]).producer;
  if (producer == kNoNode)
    return LayerNote{"its integers are an input of the network",
                     "a float input with a QuantizeLinear behind it"};
  return LayerNote{
      "'" + graph.node(producer).name + "' gives integers that are no QuantizeLinear's with the same scale",
      "the same scale and zero point on both sides"};
}

void report_quantized_layers(const Graph& graph, std::span<const TunedLayer> layers, bool timed,
                             Observer& observer) {
  int products = 0, in_bytes = 0, bytes = 0;
  std::set<std::string_view> kinds;
  std::vector<std::string> lines;
  for (const TunedLayer& layer : layers) {
    bytes += stores_integers(layer.query, layer.chosen);
    if (!is_quantized_product(layer.query)) continue;
    ++products;
    kinds.insert(bytes_of_grid(*layer.query.graph.value(layer.query.layer().inputs[0]).quantization));
    if (reads_integers(layer.query, layer.chosen)) {
      ++in_bytes;
      continue;
    }
    lines.push_back(fmt::format("'{}' computes in floats although its input is quantised: {}",
                                layer.query.layer().name, why_floats(layer, timed)));
  }
  for (const NodeId id : graph.order())
    if (const auto note = reason_to_stay(graph, graph.node(id)))
      lines.push_back(fmt::format("'{}' ({}) stays a layer: {}", graph.node(id).name,
                                  op_display_name(graph.node(id).op), note->reason));
  if (products == 0 && bytes == 0 && lines.empty()) return;
  const std::string kind(kinds.size() == 2 ? "integers or FP8" : kinds.empty() ? "integers" : *kinds.begin());
  observer.log(
      Severity::Info,
      fmt::format("Quantization: {} of {} convolutions and products with quantised inputs compute in "
                  "{}; {} of {} layers read or write {}{}.",
                  in_bytes, products, kind, bytes, layers.size(), kind,
                  lines.empty() ? "" : ". --verbose says why others do not"));
  for (const std::string& line : lines) observer.log(Severity::Verbose, line);
}

}  // namespace lathe
