// SPDX-License-Identifier: Apache-2.0
//
// Layer information as the inspector writes it: JSON with its line breaks, and one line per layer for the
// log. Both walk the same list of keys; only the punctuation differs.
#include <fmt/format.h>

#include "base/version.h"
#include "report/json_text.h"
#include "report/layer_info.h"
#include "report/log.h"

namespace lathe {
namespace {

std::string_view format_name(const Format& format) {
  switch (format.kind) {
    case Format::Kind::Linear:
      return "Row major linear";
    case Format::Kind::ChannelsLast:
      return "Channel major";
    case Format::Kind::ChannelBlocked:
      return format.block == 8 ? "Eight wide channel vectorized row major"
                               : "Sixteen wide channel vectorized row major";
  }
  return "";
}

std::string ints_text(const std::vector<int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

// "[ONNX Layer: a]" for each origin, separated by U+001E.
std::string metadata_text(const std::vector<Origin>& origins) {
  std::string text;
  for (const auto& origin : origins)
    text += (text.empty() ? "" : "\x1e") + fmt::format("[ONNX Layer: {}]", origin.name);
  return text;
}

// A field's value; strings are quoted in JSON and bare in the log, weights stay JSON in both.
std::string field_text(const LayerField& field, bool json) {
  const auto quoted = [&](const std::string& text) { return json ? json_string(text) : text; };
  struct Visitor {
    const decltype(quoted)& quote;
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return format_json_number(value); }
    std::string operator()(const std::string& value) const { return quote(value); }
    std::string operator()(const std::vector<int64_t>& values) const { return ints_text(values); }
    std::string operator()(const std::vector<std::string>& values) const {
      std::string text;
      for (const auto& value : values) text += (text.empty() ? "" : ", ") + quote(value);
      return "[" + text + "]";
    }
    std::string operator()(const WeightsField& weights) const {
      return fmt::format("{{\"Type\": {}, \"Count\": {}}}", json_string(weights.type), weights.count);
    }
  };
  return std::visit(Visitor{quoted}, field);
}

// Everything of a layer after its tensors.
std::vector<std::pair<std::string, LayerField>> tail_fields(const LayerInfo& layer) {
  std::vector<std::pair<std::string, LayerField>> fields;
  if (!layer.parameter_type.empty()) fields.emplace_back("ParameterType", layer.parameter_type);
  fields.insert(fields.end(), layer.fields.begin(), layer.fields.end());
  if (layer.type != "Constant") {
    fields.emplace_back("TacticName", layer.tactic);
    fields.emplace_back("TacticValue", fmt::format("0x{:016x}", layer.tactic_id));
    if (layer.tactic_ms > 0) fields.emplace_back("TacticTimeMs", layer.tactic_ms);
    if (layer.sums_in != DType::Undefined)
      fields.emplace_back("AccumulationType", std::string(dtype_info(layer.sums_in).trt_name));
  }
  if (!layer.fallback.empty()) fields.emplace_back("Fallback", layer.fallback);
  if (layer.note) {
    fields.emplace_back("PrecisionReason", layer.note->reason);
    if (!layer.note->hint.empty()) fields.emplace_back("PrecisionHint", layer.note->hint);
  }
  fields.emplace_back("StreamId", int64_t{0});
  fields.emplace_back("Metadata", metadata_text(layer.origins));
  return fields;
}

// Ours alone: what shares memory, for a picture of it over time.
std::string place_json(const LayerTensor& tensor) {
  if (!tensor.place) return "";
  if (tensor.place->inside.empty()) return fmt::format(",\n    \"ArenaOffset\": {}", tensor.place->offset);
  return fmt::format(",\n    \"AliasOf\": {},\n    \"AliasOffset\": {}", json_string(tensor.place->inside),
                     tensor.place->offset);
}

// Ours alone, too: the numbers are scale * (stored - zero point).
std::string quantization_json(const LayerTensor& tensor) {
  if (!tensor.quantization) return "";
  const Quantization& q = *tensor.quantization;
  return fmt::format(",\n    \"Quantization\": {{\"Scale\": [{}], \"ZeroPoint\": [{}], \"Axis\": {}}}",
                     fmt::join(q.scales, ", "), fmt::join(q.zeros, ", "), q.axis);
}

std::string tensor_json(const LayerTensor& tensor) {
  return fmt::format(
      "\n  {{\n    \"Name\": {},\n    \"Location\": \"Device\",\n    \"Dimensions\": {},\n    "
      "\"Format/Datatype\": {},\n"
      "    \"Format\": {},\n    \"Datatype\": {}{}{}\n  }}",
      json_string(tensor.name), ints_text(tensor.dims), json_string(format_text(tensor.type)),
      json_string(format_name(tensor.type.format)), json_string(dtype_info(tensor.type.dtype).trt_name),
      quantization_json(tensor), place_json(tensor));
}

std::string tensors_json(const std::vector<LayerTensor>& tensors) {
  std::string text;
  for (const auto& tensor : tensors) text += (text.empty() ? "" : ",") + tensor_json(tensor);
  return "[" + text + "]";
}

// Ours alone, after what the inspector writes: readers of the inspector's keys pass them over. The nodes are
// a list within an object: onnx's helpers, with which people draw such files, take objects, and no lists of
// objects.
std::string costs_json(const LayerCosts& costs) {
  std::string nodes;
  for (const auto& node : costs.nodes) {
    nodes += fmt::format("{}{{\"Name\": {}, \"OpType\": {}", nodes.empty() ? "" : ", ",
                         json_string(node.name), json_string(node.op_type));
    if (node.flops) nodes += fmt::format(", \"Flops\": {:.0f}", *node.flops);
    if (node.bytes) nodes += fmt::format(", \"Bytes\": {}", *node.bytes);
    if (node.saved_bytes) nodes += fmt::format(", \"SavedBytes\": {}", *node.saved_bytes);
    nodes += "}";
  }
  return fmt::format(
      ",\n  \"Flops\": {:.0f},\n  \"BytesRead\": {},\n  \"BytesWritten\": {},\n  \"WeightBytes\": {},\n  "
      "\"OnnxNodes\": {{\"Nodes\": [{}]}}",
      costs.flops, costs.bytes_read, costs.bytes_written, costs.weight_bytes, nodes);
}

// Ours alone, and a list within an object for the same reason.
std::string tuning_json(const LayerInfo& layer) {
  std::string timed, refused;
  for (const auto& t : layer.tuning->timed) {
    const bool chosen = t.name == layer.tactic && t.types == layer.tactic_types;
    timed += fmt::format("{}{{\"Name\": {}, \"Runner\": {}, \"Types\": {}{}{}}}", timed.empty() ? "" : ", ",
                         json_string(t.name), json_string(t.runner), json_string(t.types),
                         t.ms < 0 ? "" : ", \"Ms\": " + format_json_number(t.ms),
                         chosen ? ", \"Chosen\": \"yes\"" : "");
  }
  for (const auto& t : layer.tuning->refused)
    refused += fmt::format("{}{{\"Name\": {}, \"Runner\": {}, \"Reason\": {}}}", refused.empty() ? "" : ", ",
                           json_string(t.name), json_string(t.runner), json_string(t.reason));
  return fmt::format(",\n  \"Tuning\": {{\"Timed\": [{}], \"Refused\": [{}], \"LeftOut\": {}}}", timed,
                     refused, layer.tuning->left_out);
}

}  // namespace

std::string layer_json(const LayerInfo& layer) {
  std::string text =
      fmt::format("{{\n  \"Name\": {},\n  \"LayerType\": {},\n  \"Inputs\": {},\n  \"Outputs\": {}",
                  json_string(layer.name), json_string(layer.type), tensors_json(layer.inputs),
                  tensors_json(layer.outputs));
  for (const auto& [key, value] : tail_fields(layer)) {
    text += fmt::format(",\n  {}: {}", json_string(key), field_text(value, true));
  }
  if (layer.costs) text += costs_json(*layer.costs);
  if (layer.tuning) text += tuning_json(layer);
  return text + "\n}";
}

namespace {

std::string binding_json(const BindingReport& binding) {
  std::string ranges;
  for (const auto& range : binding.ranges) {
    ranges += fmt::format("{}{{\"MinShape\": {}, \"OptShape\": {}, \"MaxShape\": {}, \"Format\": {}}}",
                          ranges.empty() ? "" : ", ", ints_text(range.min), ints_text(range.opt),
                          ints_text(range.max), json_string(format_name(binding.tensor.type.format)));
  }
  return fmt::format(
      "{{\n  \"Name\": {},\n  \"IOMode\": \"{}\",\n  \"DataType\": {},\n  \"Dimensions\": {},\n  "
      "\"Location\": "
      "\"Device\",\n  \"IsShapeInferenceIO\": {},\n  \"ProfileInfo\": [{}]\n}}",
      json_string(binding.tensor.name), binding.is_input ? "Input" : "Output",
      json_string(dtype_info(binding.tensor.type.dtype).trt_name), ints_text(binding.tensor.dims),
      binding.is_shape_tensor ? "true" : "false", ranges);
}

// One item per line, each line after the first starting with the comma.
template <class Items, class Text>
std::string lines_of(const Items& items, Text text_of) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ",") + text_of(item) + "\n";
  return text;
}

std::string tensors_text(const std::vector<LayerTensor>& tensors) {
  std::string text;
  for (const auto& tensor : tensors) {
    text +=
        fmt::format("{} {{ Name: {}, Location: Device, Dimensions: {}, Format/Datatype: {} }}",
                    text.empty() ? "" : ",", tensor.name, ints_text(tensor.dims), format_text(tensor.type));
  }
  return "[" + text + "]";
}

std::string layer_text(const LayerInfo& layer) {
  std::string text = fmt::format("Name: {}, LayerType: {}, Inputs: {}, Outputs: {}", layer.name, layer.type,
                                 tensors_text(layer.inputs), tensors_text(layer.outputs));
  for (const auto& [key, value] : tail_fields(layer))
    text += fmt::format(", {}: {}", key, field_text(value, false));
  return text;
}

// As engines of several profiles list them: all of the first profile, then all of the next.
std::vector<std::string> binding_names(const LayerReport& report) {
  std::vector<std::string> names;
  for (int profile = 0; profile < report.profiles; ++profile)
    for (const auto& binding : report.bindings)
      names.push_back(binding.tensor.name + profile_suffix(profile));
  return names;
}

}  // namespace

std::string layer_info_json(const LayerReport& report) {
  std::string layers;
  if (report.verbosity == ProfilingVerbosity::LayerNamesOnly) {
    layers = lines_of(report.layers, [](const LayerInfo& layer) { return json_string(layer.name); });
  } else if (report.verbosity == ProfilingVerbosity::Detailed) {
    for (const auto& layer : report.layers) layers += (layers.empty() ? "" : ",") + layer_json(layer);
    layers += "\n";
  }
  return fmt::format(
      "{{\"Layers\": [{}],\n\"Bindings\": [{}],\n\"I/O Tensors\": [{}],\n\"ArenaBytes\": "
      "{},\n{}\"Producer\": {}}}\n",
      layers, lines_of(binding_names(report), [](const std::string& name) { return json_string(name); }),
      lines_of(report.bindings, binding_json), report.arena_bytes,
      report.settings.empty() ? "" : fmt::format("\"BuildSettings\": {},\n", json_string(report.settings)),
      json_string(fmt::format("Lathe {}", version())));
}

std::string engine_layers_text(const LayerReport& report) {
  const auto tensors = [](const std::vector<LayerTensor>& items) {
    std::string text;
    for (const LayerTensor& tensor : items)
      text += fmt::format("{}{} ({}{})", text.empty() ? "" : ", ", tensor.name,
                          dtype_info(tensor.type.dtype).trt_name, ints_text(tensor.dims));
    return text;
  };
  std::string text;
  for (const LayerInfo& layer : report.layers)
    text += fmt::format("Layer({}): {}, Tactic: 0x{:016x}, {} -> {}\n", layer.type, layer.name,
                        layer.tactic_id, tensors(layer.inputs), tensors(layer.outputs));
  return text;
}

std::string layer_info_text(const LayerReport& report) {
  std::string text;
  if (report.verbosity != ProfilingVerbosity::None) {
    for (const auto& layer : report.layers) {
      text += (report.verbosity == ProfilingVerbosity::Detailed ? layer_text(layer) : layer.name) + "\n";
    }
  }
  text += "\nBindings:\n";
  for (const auto& name : binding_names(report)) text += name + "\n";
  return text;
}

}  // namespace lathe
