// SPDX-License-Identifier: Apache-2.0
#include "backend/plugin_layer.h"

#include <algorithm>

#include "base/error.h"
#include "ir/symbol_extents.h"

namespace lathe {
namespace {

std::vector<PluginOperand> operands(std::span<const TensorType> types, const std::vector<Extents>& extents) {
  std::vector<PluginOperand> all;
  for (size_t i = 0; i < types.size(); ++i)
    all.push_back(
        {types[i].dtype, types[i].format, types[i].dtype == DType::Undefined ? Extents{} : extents[i]});
  return all;
}

// Of ranks alone, for questions about types and formats.
std::vector<Extents> ranks(const LayerQuery& query, const std::vector<ValueId>& ids) {
  std::vector<Extents> all;
  for (const ValueId id : ids) all.emplace_back(id == kNoValue ? 0 : query.graph.value(id).shape.size(), 0);
  return all;
}

bool is_data(const LayerQuery& query, ValueId id) {
  return id != kNoValue && !query.graph.value(id).is_constant();
}

bool finds_sizes(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.outputs, [&](ValueId id) {
    return id != kNoValue && std::ranges::any_of(graph.value(id).shape, [](const Dim& d) {
             return !d.data_dependent_names().empty();
           });
  });
}

// The types of the results when the inputs have those of the tactic; none when the plugin does not take them.
std::vector<DType> result_types(const Plugin& op, const LayerQuery& query, const Tactic& tactic) {
  std::vector<PluginType> inputs;
  const std::vector<ValueId>& ids = query.layer().inputs;
  for (size_t i = 0; i < ids.size(); ++i)
    inputs.push_back(ids[i] == kNoValue ? PluginType{}
                                        : PluginType{tactic.inputs[i].dtype, query.graph.value(ids[i]).shape,
                                                     query.graph.value(ids[i]).contents});
  std::vector<DType> types;
  try {
    for (const PluginType& type : op.code->infer(query.layer().name, inputs, query.layer().outputs.size()))
      types.push_back(type.dtype);
  } catch (const Error&) {
    types.clear();
  }
  return types;
}

// All float operands that are no constants in this type.
bool retype(const Plugin& op, const LayerQuery& query, DType from, DType to, Tactic& tactic) {
  if (from == to) return true;
  const Node& node = query.layer();
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (is_data(query, node.inputs[i]) && tactic.inputs[i].dtype == from) tactic.inputs[i].dtype = to;
  const std::vector<DType> types = result_types(op, query, tactic);
  if (types.size() != node.outputs.size()) return false;
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    if (types[i] != tactic.outputs[i].dtype && types[i] != to) return false;
    tactic.outputs[i].dtype = types[i];
  }
  return true;
}

bool use_channels_last(const LayerQuery& query, Tactic& tactic) {
  const Node& node = query.layer();
  bool any = false;
  const auto change = [&](ValueId id, TensorType& type) {
    if (!is_data(query, id) || query.graph.value(id).shape.size() < 3) return;
    type.format = kChannelsLast;
    any = true;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) change(node.inputs[i], tactic.inputs[i]);
  for (size_t i = 0; i < node.outputs.size(); ++i) change(node.outputs[i], tactic.outputs[i]);
  return any;
}

std::string_view device_name(PluginDevice device) {
  return device == PluginDevice::Cpu ? "CPUs" : "CUDA devices";
}

std::string refusal(const Plugin& op, const LayerQuery& query, PluginDevice device) {
  if (!op.code->runs_on(device))
    return "plugin " + op.identity().to_string() + " has no code for " + std::string(device_name(device));
  if (!query.layer().epilogue.empty()) return "a plugin applies no epilogue";
  if (device == PluginDevice::Cuda && finds_sizes(query.graph, query.layer()))
    return "on CUDA a plugin cannot say which sizes it found";
  return "plugin " + op.identity().to_string() + " does not take these types on " +
         std::string(device_name(device));
}

constexpr const char* kTacticParam = "tactic";

// The plugin's own tactics for these types and formats; where it has none, the one as it is.
void add_variants(const Plugin& op, const LayerQuery& query, PluginDevice device, Tactic tactic,
                  std::vector<Tactic>& all) {
  std::vector<int64_t> own;
  if (const auto* uses = dynamic_cast<const PluginUses*>(op.code.get())) {
    const PluginUse use = plugin_use(query, tactic, device);
    const std::shared_ptr<const PluginCode> attached = uses->attach(use);
    own = dynamic_cast<const PluginUses&>(*attached).tactics(use);
  }
  for (const int64_t number : own)
    all.push_back(
        with_variant(tactic, tactic.name + "_tactic_" + std::to_string(number), {{kTacticParam, number}}));
  if (own.empty()) all.push_back(std::move(tactic));
}

std::vector<PluginRange> ranges_of(const LayerQuery& query, const std::vector<ValueId>& ids,
                                   std::span<const TensorType> types) {
  SymbolValues least;
  for (const auto& [symbol, range] : query.ranges) least.emplace(symbol, range.min);
  const auto at = [&](const SymbolValues& symbols) {
    return operands(types, upper_extents(query.graph, ids, symbols));
  };
  const auto min = at(least), opt = at(query.opt_values()), max = at(query.max_values());
  std::vector<PluginRange> ranges;
  for (size_t i = 0; i < ids.size(); ++i) ranges.push_back({min[i], opt[i], max[i]});
  return ranges;
}

}  // namespace

PluginUse plugin_use(const LayerQuery& query, const Tactic& tactic, PluginDevice device) {
  return {.device = device,
          .inputs = ranges_of(query, query.layer().inputs, tactic.inputs),
          .outputs = ranges_of(query, query.layer().outputs, tactic.outputs),
          .tactic = tactic.params.get(kTacticParam, 0)};
}

std::vector<Tactic> list_plugin(const LayerQuery& query, PluginDevice device) {
  const auto* op = std::get_if<Plugin>(&query.layer().op);
  if (!op) return {};
  check(op->code != nullptr, "a plugin without code is asked for tactics");
  const std::string name = "plugin_" + op->plugin + "_" + op->version;
  std::vector<Tactic> tactics;
  const bool possible = op->code->runs_on(device) && query.layer().epilogue.empty() &&
                        !(device == PluginDevice::Cuda && finds_sizes(query.graph, query.layer()));
  const DType own = layer_types(query)[0];
  for (const DType type : possible ? layer_types(query) : std::vector<DType>()) {
    for (const bool last : {false, true}) {
      Tactic tactic = linear_tactic(query, kPluginRunner, name);
      if (!retype(*op, query, own, type, tactic) || (last && !use_channels_last(query, tactic))) continue;
      if (op->code->supports(device, operands(tactic.inputs, ranks(query, query.layer().inputs)),
                             operands(tactic.outputs, ranks(query, query.layer().outputs))))
        add_variants(*op, query, device, std::move(tactic), tactics);
    }
  }
  if (tactics.empty()) {
    tactics.push_back(linear_tactic(query, kPluginRunner, name));
    tactics[0].support = Support::no(refusal(*op, query, device));
  }
  return tactics;
}

PluginLayer::PluginLayer(const Graph& graph, NodeId layer, const Tactic& tactic, const PluginUse& use,
                         const std::vector<Extents>& inputs, const std::vector<Extents>& outputs)
    : code_(std::get<Plugin>(graph.node(layer).op).code),
      device_(use.device),
      inputs_(operands(tactic.inputs, inputs)),
      outputs_(operands(tactic.outputs, outputs)),
      finds_sizes_(lathe::finds_sizes(graph, graph.node(layer))) {
  if (const auto* uses = dynamic_cast<const PluginUses*>(code_.get())) code_ = uses->attach(use);
  for (const ValueId id : graph.node(layer).outputs) {
    output_shapes_.push_back(id == kNoValue ? Shape{} : graph.value(id).shape);
    output_names_.push_back(id == kNoValue ? "" : graph.value(id).name);
  }
  workspace_bytes_ = code_->workspace_bytes(device_, inputs_, outputs_);
  if (device_ == PluginDevice::Cpu && !finds_sizes_) work_items_ = code_->work_items(inputs_, outputs_);
}

size_t PluginLayer::output_bytes(size_t index, const Extents& extents) const {
  const PluginOperand& o = outputs_[index];
  return o.dtype == DType::Undefined ? 0 : static_cast<size_t>(storage_bytes(o.dtype, extents, o.format));
}

std::vector<Extents> PluginLayer::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                                      void* workspace, int64_t begin, int64_t end, void* stream) const {
  std::vector<PluginOperand> in = inputs_, out = outputs_;
  for (size_t i = 0; i < in.size(); ++i) in[i].data = const_cast<void*>(inputs[i]);
  for (size_t i = 0; i < out.size(); ++i) out[i].data = outputs[i];
  code_->run(device_, {in, out, workspace, begin, end, stream});
  std::vector<Extents> found;
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t d = 0; d < out[i].extents.size(); ++d)
      if (out[i].extents[d] != outputs_[i].extents[d] && output_shapes_[i][d].data_dependent_names().empty())
        throw_input_error("plugin " + code_->identity().to_string() + " changed dim " + std::to_string(d) +
                          " of '" + output_names_[i] + "' to " + std::to_string(out[i].extents[d]) +
                          "; only a dim that it made by data_dependent() may change in a run");
    found.push_back(out[i].extents);
  }
  return found;
}

void PluginLayer::resolve(const std::vector<Extents>& found, SymbolValues& values) const {
  for (size_t i = 0; i < found.size(); ++i)
    for (size_t d = 0; d < found[i].size(); ++d)
      if (const auto name = output_shapes_[i][d].as_symbol(); name && !values.contains(*name))
        values.emplace(*name, found[i][d]);
}

}  // namespace lathe
