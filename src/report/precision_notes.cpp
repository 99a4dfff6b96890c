// SPDX-License-Identifier: Apache-2.0
#include "report/precision_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backend/view.h"

namespace lathe {
namespace {

// The type in which a tactic reads: "float16" of "float16:nhwc, float16:linear -> float16:nhwc".
std::string_view read_type(std::string_view types) {
  return types.substr(0, types.find(':'));
}

bool is_narrow_float(std::string_view type) {
  return type == dtype_name(DType::Float16) || type == dtype_name(DType::BFloat16);
}

// The fastest tactic that reads this type; null: none was timed.
const TriedTactic* fastest(const LayerInfo& layer, std::string_view type) {
  const TriedTactic* best = nullptr;
  if (!layer.tuning) return best;
  for (const TriedTactic& tactic : layer.tuning->timed)
    if (tactic.ms >= 0 && read_type(tactic.types) == type && (!best || tactic.ms < best->ms)) best = &tactic;
  return best;
}

// Why the layer reads `chosen` and not `other`, in which a tactic was timed.
LayerNote compared(const TriedTactic& chosen, const TriedTactic& other, std::string_view hint) {
  const auto [type, other_type] = std::pair(read_type(chosen.types), read_type(other.types));
  const std::string times =
      fmt::format("measured {:.3g} ms in {}, {:.3g} ms in {}", chosen.ms, type, other.ms, other_type);
  if (other.ms >= chosen.ms) return {times, ""};  // nothing helps: both were measured
  return {times + fmt::format(" ({}); conversions before and behind it cost more than that wins", other.name),
          std::string(hint)};
}

// The reason of a refused tactic whose runner or reason speaks of the type.
std::string refusal(const LayerInfo& layer, const std::vector<std::string_view>& words) {
  if (!layer.tuning) return {};
  for (const UnusableTactic& refused : layer.tuning->refused)
    for (const std::string_view word : words)
      if (refused.runner.starts_with(word) || refused.reason.find(word) != std::string::npos ||
          refused.name.find(word) != std::string::npos)
        return refused.name + ": " + refused.reason;
  return {};
}

std::optional<LayerNote> note_of_quantized_input(const Graph& graph, const Node& node,
                                                 const LayerInfo& layer) {
  const Value& input = graph.value(node.inputs[0]);
  const std::string_view integer = dtype_name(input.quantization->dtype),
                         chosen = read_type(layer.tactic_types);
  if (chosen == integer || input.dtype == input.quantization->dtype) return std::nullopt;
  const TriedTactic *integers = fastest(layer, integer), *floats = fastest(layer, chosen);
  if (integers && floats)
    return compared(*floats, *integers, "quantise its neighbours, too: lathe quantize --op-types");
  const bool floats8 = input.quantization->has_floats();
  const std::vector<std::string_view> words =
      floats8 ? std::vector<std::string_view>{"FP8"} : std::vector<std::string_view>{"Integer", "int8"};
  const std::string kind = floats8 ? "FP8" : "integer";
  if (const std::string reason = refusal(layer, words); !reason.empty())
    return LayerNote{"no " + kind + " kernel takes it: " + reason,
                     "lathe quantize --exclude spares its rounding"};
  return LayerNote{"no " + kind +
                       " tactic is in the record: the device has none, none was timed, or the engine as a "
                       "whole was faster in floats",
                   ""};
}

// The value that a chain of conversions began with.
const Value& unconverted(const Graph& graph, ValueId id) {
  for (NodeId producer = graph.value(id).producer;
       producer != kNoNode && std::holds_alternative<Reformat>(graph.node(producer).op);
       producer = graph.value(id).producer)
    id = graph.node(producer).inputs[0];
  return graph.value(id);
}

std::optional<LayerNote> note_of_float_input(const Graph& graph, const Node& node) {
  const Value& input = unconverted(graph, node.inputs[0]);
  const bool has_weights =
      node.inputs.size() > 1 && node.inputs[1] != kNoValue && graph.value(node.inputs[1]).is_constant();
  if (!has_weights)
    return LayerNote{"no operand is constant, and '" + input.name + "' is not quantised",
                     "Q and DQ before both operands"};
  return LayerNote{"its input '" + input.name + "' is not quantised",
                   "lathe quantize lists it under 'stays float', or it was excluded: --exclude, --op-types"};
}

std::optional<LayerNote> note_of_narrow(const LayerInfo& layer, const std::set<std::string_view>& allowed) {
  const std::string_view chosen = read_type(layer.tactic_types);
  if (chosen != dtype_name(DType::Float32)) return std::nullopt;
  const TriedTactic* floats = fastest(layer, chosen);
  for (const std::string_view type : allowed)
    if (const TriedTactic* narrow = fastest(layer, type); narrow && floats)
      return compared(*floats, *narrow, "lathe autocast makes its neighbours narrow, too");
  for (const std::string_view type : allowed)
    if (const std::string reason = refusal(layer, {type}); !reason.empty())
      return LayerNote{"no kernel in " + std::string(type) + ": " + reason,
                       "lathe autocast --exclude spares Casts around it"};
  return LayerNote{"no tactic in " + std::string(*allowed.begin()) +
                       " was tried: the layer keeps float32 for accuracy, or has none",
                   "lathe autocast makes its type part of the model"};
}

// The narrow types in which any layer was timed or runs: those that the build allowed.
std::set<std::string_view> allowed_types(const LayerReport& report) {
  std::set<std::string_view> types;
  const auto note = [&](std::string_view text) {
    if (is_narrow_float(read_type(text))) types.insert(read_type(text));
  };
  for (const LayerInfo& layer : report.layers) {
    note(layer.tactic_types);
    if (layer.tuning)
      for (const TriedTactic& tactic : layer.tuning->timed) note(tactic.types);
  }
  return types;
}

bool has_grids(const Graph& graph) {
  return std::any_of(graph.order().begin(), graph.order().end(), [&](NodeId id) {
    return is_product(graph.node(id)) && is_on_grid(graph, graph.node(id).inputs[0]);
  });
}

}  // namespace

void add_precision_notes(LayerReport& report, const PlanVariant& variant) {
  const Graph& graph = *variant.graph;
  const std::set<std::string_view> allowed = allowed_types(report);
  const bool quantized = has_grids(graph);
  size_t next = 0;
  for (LayerInfo& layer : report.layers) {
    if (layer.is_nested) continue;
    const size_t i = next++;
    const Node& node = graph.node(graph.order()[i]);
    if (!layer.fallback.empty() || layer.type == "Constant" || node.origins.empty()) continue;
    layer.note = reason_to_stay(graph, node);
    if (layer.note) continue;
    if (is_product(node) && is_on_grid(graph, node.inputs[0]))
      layer.note = note_of_quantized_input(graph, node, layer);
    else if (is_product(node) && quantized && read_type(layer.tactic_types) == dtype_name(DType::Float32))
      layer.note = note_of_float_input(graph, node);
    else if (!allowed.empty() && variant.choices[i].tactic.runner != kViewRunner)
      layer.note = note_of_narrow(layer, allowed);
  }
}

}  // namespace lathe
