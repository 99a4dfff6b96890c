// SPDX-License-Identifier: Apache-2.0
#include "report/layer_info.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "backend/nested_layers.h"
#include "ir/dim_clamps.h"
#include "ir/new_names.h"
#include "report/precision_notes.h"
#include "report/sum_type.h"

namespace lathe {
namespace {

int64_t dim_value(const Dim& dim, const std::optional<SymbolValues>& symbols) {
  if (dim.is_constant()) return dim.value();
  if (!symbols) return -1;
  SymbolRanges ranges;
  for (const auto& [name, value] : *symbols) ranges[name] = {value, value, value};
  for (const auto& name : dim.symbols()) {
    if (!ranges.contains(name) && !dim.data_dependent_names().contains(name)) return -1;
  }
  return largest(dim, ranges);  // the upper bound of what depends on data
}

Extents dim_values(const Shape& shape, const std::optional<SymbolValues>& symbols) {
  Extents extents;
  for (const auto& dim : shape) extents.push_back(dim_value(dim, symbols));
  return extents;
}

std::optional<TensorPlace> describe_place(const PlanVariant& variant, ValueId id,
                                          const std::optional<SymbolValues>& symbols) {
  const auto& placements = variant.memory.placements;
  if (static_cast<size_t>(id) >= placements.size()) return {};
  const Placement& placement = placements[static_cast<size_t>(id)];
  if (placement.kind == Placement::Kind::Arena) return TensorPlace{"", placement.offset};
  if (placement.kind != Placement::Kind::View) return {};
  const int64_t offset = dim_value(placement.view_offset, symbols);
  if (offset < 0) return {};
  return TensorPlace{variant.graph->value(placement.base).name, offset};
}

LayerTensor describe_tensor(const Value& value, const std::optional<SymbolValues>& symbols) {
  return {value.name,
          dim_values(value.shape, symbols),
          {value.dtype, value.format},
          std::nullopt,
          value.is_stored_quantized() ? value.quantization : std::nullopt};
}

// The type column of the engine explorer. Pointwise and reformat layers keep the words it looks for.
std::string layer_type(const LayerInfo& layer, const Tactic& tactic) {
  if (layer.parameter_type == "PointWise") return "PointWiseV2";
  if (layer.parameter_type == "Reformat") return "Reformat";
  if (layer.parameter_type == "Plugin") return "PluginV3";
  return tactic.runner.empty() ? layer.parameter_type : tactic.runner;
}

// Data-dependent dims whose size a run knows when the layer has run, and not before.
std::vector<std::string> dims_found_by(const Graph& graph, size_t position) {
  const std::set<std::string> made = new_names(graph, graph.node(graph.order()[position]));
  const auto is_known = [&](const std::string& name) {
    const auto end = graph.order().begin() + static_cast<std::ptrdiff_t>(position);
    return std::any_of(graph.order().begin(), end,
                       [&](NodeId id) { return new_names(graph, graph.node(id)).contains(name); });
  };
  std::vector<std::string> found;
  std::copy_if(made.begin(), made.end(), std::back_inserter(found),
               [&](auto& name) { return !is_known(name); });
  return found;
}

// A layer of a network or of a body, without what only those of a network have: places, times.
LayerInfo describe_node(const Graph& graph, NodeId id, const Tactic& tactic,
                        const std::optional<SymbolValues>& symbols) {
  const Node& node = graph.node(id);
  LayerInfo layer;
  layer.name = node.name;
  for (const ValueId input : node.inputs)
    if (input != kNoValue && !graph.value(input).is_constant())
      layer.inputs.push_back(describe_tensor(graph.value(input), symbols));
  for (const ValueId output : node.outputs)
    if (output != kNoValue) layer.outputs.push_back(describe_tensor(graph.value(output), symbols));
  layer.tactic = tactic.name;
  layer.tactic_id = tactic.id;
  layer.tactic_types = types_text(tactic);
  layer.origins = node.origins;
  if (layer.inputs.empty()) {  // shapes and fills: computed from dims alone
    layer.type = "Constant";
    return layer;
  }
  auto description = describe_op(graph, node);
  layer.parameter_type = std::move(description.parameter_type);
  layer.fields = std::move(description.fields);
  layer.type = layer_type(layer, tactic);
  layer.sums_in = sum_type(graph, node, tactic);
  return layer;
}

LayerInfo describe_layer(const PlanVariant& variant, size_t position,
                         const std::optional<SymbolValues>& symbols) {
  const Graph& graph = *variant.graph;
  const Node& node = graph.node(graph.order()[position]);
  const Choice& choice = variant.choices[position];
  LayerInfo layer = describe_node(graph, graph.order()[position], choice.tactic, symbols);
  auto tensor = layer.inputs.begin();
  for (const ValueId id : node.inputs)
    if (id != kNoValue && !graph.value(id).is_constant())
      (tensor++)->place = describe_place(variant, id, symbols);
  tensor = layer.outputs.begin();
  for (const ValueId id : node.outputs)
    if (id != kNoValue) (tensor++)->place = describe_place(variant, id, symbols);
  // Without timing (level 0) it is an estimate, which nothing should be held against.
  if (variant.measured_ms > 0) layer.tactic_ms = choice.time_ms;
  layer.fallback = choice.fallback;
  // What comes behind is prepared when the layer has run: on a GPU the host waits for it.
  if (auto found = dims_found_by(graph, position); layer.type != "Constant" && !found.empty())
    layer.fields.emplace_back("FindsDims", std::move(found));
  return layer;
}

// The layers of the bodies of that layer.
std::vector<LayerInfo> describe_nested(const PlanVariant& variant, size_t position,
                                       const std::optional<SymbolValues>& symbols) {
  static const Tactic untold{.runner = "", .name = "", .id = 0};
  std::vector<LayerInfo> layers;
  const Node& holder = variant.graph->node(variant.graph->order()[position]);
  for (const NestedLayer& nested : nested_layers(holder, variant.choices[position].tactic)) {
    layers.push_back(describe_node(*nested.graph, nested.node,
                                   nested.tactic != nullptr ? *nested.tactic : untold, symbols));
    layers.back().name = nested.name;
    layers.back().is_nested = true;
  }
  return layers;
}

BindingReport describe_binding(const TensorInfo& info, bool is_input,
                               const std::vector<OptimizationProfile>& profiles,
                               const std::optional<SymbolValues>& symbols) {
  BindingReport binding;
  binding.tensor = {info.name, dim_values(info.shape, symbols), {info.dtype, kLinear}, {}};
  binding.is_input = is_input;
  binding.is_shape_tensor = info.contents.has_value();
  for (const auto& profile : profiles) {
    const auto found = profile.shapes.find(info.name);
    if (is_input && found != profile.shapes.end()) binding.ranges.push_back(found->second);
  }
  return binding;
}

struct FormatWords {
  DType dtype;
  std::string_view linear, channels_last;
};
// Only phrases of TensorRT's own table; where it has none for a type, the short token says at least the type.
// Its phrases for BF16 and bool are known to tools with a size of 0 bytes, so those use the token, too.
constexpr std::array<FormatWords, 6> kFormatWords = {{
    {DType::Float32, "Row major linear FP32", "Channel major FP32 format"},
    {DType::Float16, "Row major linear FP16 format", "Channel major FP16 format"},
    {DType::Int8, "Row major Int8 format", "Channel major Int8 format"},
    {DType::UInt8, "Row major linear UInt8 format", "Channel major UInt8 format"},
    {DType::Int32, "Row major linear Int32", ""},
    {DType::Int64, "Row major linear Int64 format", ""},
}};

}  // namespace

void add_profile(LayerReport& report, const Plan& plan, const PlanVariant& variant,
                 const std::optional<SymbolValues>& symbols) {
  const std::string suffix = profile_suffix(report.profiles++);
  const auto is_binding = [&](const std::string& name) {
    return std::any_of(report.bindings.begin(), report.bindings.end(),
                       [&](const BindingReport& b) { return b.tensor.name == name; });
  };
  const auto rename = [&](std::vector<LayerTensor>& tensors) {
    for (LayerTensor& tensor : tensors) {
      if (is_binding(tensor.name)) tensor.name += suffix;
      if (tensor.place && is_binding(tensor.place->inside)) tensor.place->inside += suffix;
    }
  };
  report.arena_bytes = std::max(report.arena_bytes, variant.memory.arena_bytes);
  for (LayerInfo& layer : describe_layers(plan, variant, symbols).layers) {
    layer.name += suffix;
    rename(layer.inputs);
    rename(layer.outputs);
    report.layers.push_back(std::move(layer));
  }
}

LayerReport describe_layers(const Plan& plan, const PlanVariant& variant,
                            const std::optional<SymbolValues>& symbols) {
  LayerReport report;
  report.verbosity = plan.verbosity;
  report.arena_bytes = variant.memory.arena_bytes;
  for (size_t i = 0; i < variant.graph->order().size(); ++i) {
    report.layers.push_back(describe_layer(variant, i, symbols));
    for (LayerInfo& nested : describe_nested(variant, i, symbols)) report.layers.push_back(std::move(nested));
  }
  const TuningRecord tried = tuning_record_from_text(variant.tuning);
  for (LayerInfo& layer : report.layers)
    if (const auto found = tried.find(layer.name); found != tried.end()) layer.tuning = found->second;
  add_precision_notes(report, variant);
  for (const auto& input : plan.inputs)
    report.bindings.push_back(describe_binding(input, true, plan.profiles, symbols));
  for (const auto& output : plan.outputs)
    report.bindings.push_back(describe_binding(output, false, plan.profiles, symbols));
  return report;
}

std::string format_text(const TensorType& type) {
  for (const auto& words : kFormatWords) {
    if (words.dtype != type.dtype) continue;
    if (type.format.kind == Format::Kind::Linear) return std::string(words.linear);
    if (type.format.kind == Format::Kind::ChannelsLast && !words.channels_last.empty()) {
      return std::string(words.channels_last);
    }
  }
  if (type.dtype == DType::Float16 && type.format == kBlocked16) {
    return "Sixteen wide channel vectorized row major FP16 format";
  }
  return std::string(dtype_info(type.dtype).trt_name);
}

}  // namespace lathe
