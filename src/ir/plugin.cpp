// SPDX-License-Identifier: Apache-2.0
#include "ir/plugin.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "ir/edit.h"
#include "ir/graph.h"

namespace lathe {
namespace {

constexpr char kHex[] = "0123456789abcdef";

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += kHex[std::to_integer<unsigned>(b) >> 4];
    text += kHex[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

std::vector<std::byte> bytes_of_hex(const std::string& text) {
  const auto digit = [&](char c) {
    const size_t value = std::string_view(kHex).find(c);
    if (value == std::string_view::npos)
      throw_input_error("a plugin's field has a byte that is not hexadecimal");
    return value;
  };
  if (text.size() % 2 != 0) throw_input_error("a plugin's field has half a byte");
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(digit(text[i]) << 4 | digit(text[i + 1])));
  return bytes;
}

// JSON has no NaN, and doubles hold integers up to 2^53.
bool reads_as_numbers(const Tensor& tensor) {
  if (tensor.size() > 64 || tensor.dtype() == DType::Int64 || tensor.dtype() == DType::UInt64) return false;
  return std::ranges::all_of(tensor.to_doubles(), [](double v) { return std::isfinite(v); });
}

Json value_json(const PluginField& field) {
  if (field.is_text) {
    const auto bytes = field.value.bytes();
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    // A text that is no UTF-8 would be changed on the way through JSON.
    if (parse_json(dump_json(Json(text), -1), "text").get<std::string>() == text) return text;
    return {{"text", hex_of(bytes)}};
  }
  Json json = {{"type", std::string(dtype_name(field.value.dtype()))}, {"dims", field.value.extents()}};
  if (field.value.dtype() == DType::Int64 && field.value.size() <= 64)
    json["values"] = field.value.to_int64s();
  else if (reads_as_numbers(field.value))
    json["values"] = field.value.to_doubles();
  else
    json["bytes"] = hex_of(field.value.bytes());
  return json;
}

Tensor text_tensor(std::span<const std::byte> bytes) {
  Tensor tensor = Tensor::allocate(DType::UInt8, {static_cast<int64_t>(bytes.size())});
  std::ranges::copy(bytes, tensor.mutable_bytes().begin());
  return tensor;
}

Tensor tensor_from(const Json& json) {
  const auto dtype = dtype_from_name(json.at("type").get<std::string>());
  if (!dtype) throw_input_error("a plugin's field has an unknown type");
  const auto extents = json.at("dims").get<Extents>();
  int64_t count = 1;
  for (const int64_t extent : extents) {
    if (extent < 0 || extent > (int64_t{1} << 31) || (count *= extent) > (int64_t{1} << 31))
      throw_input_error("a plugin's field has too many elements");
  }
  if (json.contains("values")) {
    if (static_cast<int64_t>(json["values"].size()) != count)
      throw_input_error("a plugin's field has another number of values than its dims say");
    if (*dtype == DType::Int64)
      return Tensor::from<int64_t>(extents, json["values"].get<std::vector<int64_t>>());
    return Tensor::from_doubles(*dtype, extents, json["values"].get<std::vector<double>>());
  }
  const std::vector<std::byte> bytes = bytes_of_hex(json.at("bytes").get<std::string>());
  if (static_cast<int64_t>(bytes.size()) != dtype_bytes(*dtype, count))
    throw_input_error("a plugin's field has another number of bytes than its type and dims say");
  Tensor tensor = Tensor::allocate(*dtype, extents);
  std::ranges::copy(bytes, tensor.mutable_bytes().begin());
  return tensor;
}

PluginField field_from(const std::string& name, const Json& json) {
  if (json.is_string()) {
    const std::string text = json.get<std::string>();
    return {name, text_tensor(std::as_bytes(std::span(text))), true};
  }
  if (json.contains("text")) return {name, text_tensor(bytes_of_hex(json["text"].get<std::string>())), true};
  return {name, tensor_from(json), false};
}

struct Missing {
  std::vector<std::string> plugins;
  void add(const PluginIdentity& identity) {
    const std::string text = identity.to_string();
    if (std::ranges::find(plugins, text) == plugins.end()) plugins.push_back(text);
  }
};

void bind(Graph& graph, const PluginSource* source, Missing& missing) {
  GraphEditor editor(graph);
  for (const NodeId id : graph.order()) {
    const Op& op = graph.node(id).op;
    if (!bodies_of(op).empty()) {
      editor.set_op(id, map_bodies(op, [&](const Graph& body) {
                      Graph bound = body;
                      bind(bound, source, missing);
                      return bound;
                    }));
    } else if (const auto* plugin = std::get_if<Plugin>(&op); plugin && !plugin->code) {
      Plugin bound = *plugin;
      if (source) bound.code = source->create(plugin->identity(), plugin->fields);
      if (!bound.code) missing.add(plugin->identity());
      editor.set_op(id, std::move(bound));
    }
  }
}

}  // namespace

std::string PluginIdentity::to_string() const {
  return "'" + name + "' version " + (version.empty() ? "any" : version) +
         (name_space.empty() ? "" : " of namespace '" + name_space + "'");
}

std::string plugin_fields_text(std::span<const PluginField> fields) {
  if (fields.empty()) return {};
  std::vector<const PluginField*> sorted;
  for (const PluginField& field : fields) sorted.push_back(&field);
  std::ranges::sort(sorted, {}, [](const PluginField* field) { return field->name; });
  Json json = Json::object();
  for (const PluginField* field : sorted) json[field->name] = value_json(*field);
  return dump_json(json, -1);
}

std::vector<PluginField> plugin_fields_from(std::string_view text) {
  std::vector<PluginField> fields;
  if (text.empty()) return fields;
  const Json json = parse_json(text, "a plugin's fields");
  if (!json.is_object()) throw_input_error("a plugin's fields are no JSON object");
  try {
    for (const auto& [name, value] : json.items()) fields.push_back(field_from(name, value));
  } catch (const Json::exception& error) {
    throw_input_error("a plugin's fields cannot be read: " + std::string(error.what()));
  }
  return fields;
}

void bind_plugins(Graph& graph, const PluginSource* source, const std::string& hint) {
  Missing missing;
  bind(graph, source, missing);
  if (missing.plugins.empty()) return;
  std::string names;
  for (const std::string& plugin : missing.plugins) names += (names.empty() ? "" : ", ") + plugin;
  const bool one = missing.plugins.size() == 1;
  const std::string there = source ? source->list() : "";
  throw_input_error(
      "it needs the plugin" + std::string(one ? " " : "s ") + names + ", which no loaded library has (" +
      (there.empty() ? "no plugin is loaded" : "loaded: " + there) + "); " +
      (hint.empty() ? "load the library that has " + std::string(one ? "it" : "them") +
                          ": --dynamicPlugins=<lib.so> on the command line, PluginRegistry::load in the API"
                    : hint));
}

}  // namespace lathe
