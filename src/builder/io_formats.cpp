// SPDX-License-Identifier: Apache-2.0
#include "builder/io_formats.h"

#include <algorithm>

#include "base/error.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe {
namespace {

bool is_whole_bytes(DType dtype) {
  return dtype_info(dtype).bits % 8 == 0;
}

ValueId find(const std::vector<ValueId>& ids, const Graph& graph, std::string_view name) {
  const auto it = std::ranges::find_if(ids, [&](ValueId id) { return graph.value(id).name == name; });
  return it == ids.end() ? kNoValue : *it;
}

void check_cast(const std::string& name, DType from, DType to) {
  if (!is_whole_bytes(from) || !is_whole_bytes(to))
    throw_input_error("'" + name + "' cannot be " + std::string(dtype_name(to)) + ": it is " +
                          std::string(dtype_name(from)) +
                          " in the model, and types of less than a byte are not cast",
                      ErrorCode::InvalidConfig);
}

// The input keeps its name; what reads it reads the cast.
void cast_input(Graph& graph, ValueId input, DType dtype) {
  GraphEditor editor(graph);
  const DType own = graph.value(input).dtype;
  const std::string name = graph.value(input).name;
  check_cast(name, own, dtype);
  if (graph.value(input).contents)
    throw_input_error(
        "input '" + name + "' decides shapes: it keeps its type " + std::string(dtype_name(own)),
        ErrorCode::InvalidConfig);
  const std::vector<NodeId> readers = graph.users(input);
  const std::vector<ValueId> outputs = graph.outputs();
  editor.set_type(input, dtype, kLinear);
  const NodeId first = graph.order().empty() ? kNoNode : graph.order().front();
  const ValueId cast = append_node(editor, "Cast of input " + name, Cast{.to = own}, {input}, {},
                                   {name + " as " + std::string(dtype_name(own))}, 1, first)[0];
  for (const NodeId reader : readers) {
    const std::vector<ValueId> inputs = graph.node(reader).inputs;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k] == input) editor.replace_input(reader, k, cast);
  }
  for (size_t k = 0; k < outputs.size(); ++k)
    if (outputs[k] == input) editor.replace_output(k, cast);
}

void cast_output(Graph& graph, ValueId output, DType dtype) {
  GraphEditor editor(graph);
  const Value& value = graph.value(output);
  const std::string name = value.name;
  check_cast(name, value.dtype, dtype);
  const auto place = std::ranges::find(graph.outputs(), output) - graph.outputs().begin();
  editor.rename_value(output, name + " as " + std::string(dtype_name(value.dtype)));
  const ValueId cast =
      append_node(editor, "Cast of output " + name, Cast{.to = dtype}, {output}, {}, {name})[0];
  editor.replace_output(static_cast<size_t>(place), cast);
}

int64_t known_channels(const Shape& shape) {
  return shape.size() > 1 && shape[1].is_constant() ? shape[1].value() : -1;
}

struct NamedFormat {
  std::string_view name;
  size_t rank;  // that it is for; 0: any
  Format format;
  int64_t multiple;  // of channels
};
constexpr NamedFormat kNamed[] = {
    {"chw", 0, kLinear, 1},        {"hwc", 4, kChannelsLast, 1},    {"dhwc", 5, kChannelsLast, 1},
    {"hwc8", 4, kChannelsLast, 8}, {"hwc16", 4, kChannelsLast, 16}, {"dhwc8", 5, kChannelsLast, 8},
    {"chw16", 4, kBlocked16, 16},
};

}  // namespace

Format io_format(std::string_view name, const Shape& shape) {
  const auto known = std::ranges::find(kNamed, name, &NamedFormat::name);
  if (known == std::end(kNamed))
    throw_input_error("no engine has memory in format " + std::string(name) +
                          " (chw, hwc, hwc8, hwc16, dhwc and dhwc8; chw16 where no channel is padded)",
                      ErrorCode::InvalidConfig);
  if (known->rank != 0 && known->rank != shape.size())
    throw_input_error("format " + std::string(name) + " is for tensors of rank " +
                          std::to_string(known->rank) + ", this one is " + to_string(shape),
                      ErrorCode::InvalidConfig);
  const bool padded =
      known->multiple > 1 && (known_channels(shape) < 0 || known_channels(shape) % known->multiple != 0);
  if (padded && known->format.kind == Format::Kind::ChannelsLast)
    return {Format::Kind::ChannelsLast, static_cast<int>(known->multiple)};
  if (padded)
    throw_input_error(
        "format " + std::string(name) + " pads channels to a multiple of " + std::to_string(known->multiple) +
            ", and " + to_string(shape) +
            " has another number of them; such memory is not padded here: take chw, hwc or hwc16",
        ErrorCode::InvalidConfig);
  return known->format;
}

void set_io_types(Network& network, const std::map<std::string, IoType, std::less<>>& types) {
  Graph graph = *network.graph;
  for (const auto& [name, type] : types) {
    const ValueId input = find(graph.inputs(), graph, name), output = find(graph.outputs(), graph, name);
    if (input == kNoValue && output == kNoValue)
      throw_input_error("the network has no input or output '" + name + "'");
    const ValueId id = input != kNoValue ? input : output;
    const size_t rank = graph.value(id).shape.size();
    if (network.strings.contains(name) &&
        (!type.format.is_linear() || type.dtype.value_or(DType::UInt8) != DType::UInt8))
      throw_input_error("'" + name + "' is strings, which are bytes (uint8) in linear memory",
                        ErrorCode::InvalidConfig);
    if (!type.format.is_linear() && (rank < 3 || !is_whole_bytes(type.dtype.value_or(graph.value(id).dtype))))
      throw_input_error("'" + name + "' of " + to_string(graph.value(id).shape) + " has only one format: chw",
                        ErrorCode::InvalidConfig);
    if (type.dtype && *type.dtype != graph.value(id).dtype)
      input != kNoValue ? cast_input(graph, id, *type.dtype) : cast_output(graph, id, *type.dtype);
    if (type.format.is_linear())
      network.formats.erase(name);
    else
      network.formats[name] = type.format;
  }
  verify_graph(graph);
  network.graph = std::make_shared<Graph>(std::move(graph));
}

void apply_io_formats(Graph& graph, const std::map<std::string, Format, std::less<>>& formats) {
  GraphEditor editor(graph);
  for (const auto* ids : {&graph.inputs(), &graph.outputs()})
    for (const ValueId id : *ids)
      if (const auto it = formats.find(graph.value(id).name); it != formats.end())
        editor.set_type(id, graph.value(id).dtype, it->second);
}

}  // namespace lathe
