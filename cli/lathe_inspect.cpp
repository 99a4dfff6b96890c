// SPDX-License-Identifier: Apache-2.0
//
// `lathe inspect`: what a model or an engine file holds, as aligned tables or JSON. Both are views of the
// same JSON value. With --graph every node and tensor of a model, for the explorer and for scripts.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "arguments/words.h"
#include "base/file.h"
#include "base/json.h"
#include "commands.h"
#include "engine_setup.h"
#include "explorer/core/text.h"
#include "onnx/import.h"
#include "report/layer_info.h"
#include "report/model_graph.h"
#include "report/table.h"
#include "say.h"
#include "terminal.h"

namespace lathe::cli {
namespace {

using Align = Table::Align;

Json tensor_json(const TensorInfo& info) {
  return {{"name", info.name}, {"type", dtype_name(info.dtype)}, {"shape", to_string(info.shape)}};
}

Json tensors_json(const std::vector<TensorInfo>& infos) {
  Json list = Json::array();
  for (const auto& info : infos) list.push_back(tensor_json(info));
  return list;
}

// Constants of a graph: how many elements and bytes.
void add_weights(Json& json, const Graph& graph) {
  int64_t elements = 0, bytes = 0;
  for (size_t id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(static_cast<ValueId>(id));
    if (!value.is_constant()) continue;
    elements += value.constant.size();
    bytes += dtype_bytes(value.dtype, value.constant.size());
  }
  json["parameters"] = elements;
  json["weight_bytes"] = bytes;
}

// ONNX operator types, how often, and the operators that they became.
Json operators_json(const Graph& graph) {
  struct Entry {
    std::set<std::string> nodes, becomes;
  };
  std::map<std::string, Entry> entries;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const auto& origin : node.origins) {
      entries[origin.op_type].nodes.insert(origin.name);
      entries[origin.op_type].becomes.insert(std::string(op_display_name(node.op)));
    }
  }
  Json list = Json::array();
  for (const auto& [type, entry] : entries) {
    list.push_back({{"operator", type}, {"count", entry.nodes.size()}, {"becomes", entry.becomes}});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Json& a, const Json& b) { return a["count"] > b["count"]; });
  return list;
}

Json inspect_model(const std::string& file, const PluginSource& plugins) {
  NullObserver observer;
  const ImportedModel model = import_onnx(file, observer, {.plugins = &plugins});
  Json json;
  json["file"] = file;
  json["kind"] = "model";
  json["producer"] =
      model.info.producer + (model.info.producer_version.empty() ? "" : " " + model.info.producer_version);
  json["ir_version"] = model.info.ir_version;
  json["opset"] = model.info.opset_version;
  json["nodes"] = model.node_count;
  json["nodes_after_import"] = model.graph.order().size();
  add_weights(json, model.graph);
  json["inputs"] = tensors_json(input_infos(model.graph));
  json["outputs"] = tensors_json(output_infos(model.graph));
  json["operators"] = operators_json(model.graph);
  return json;
}

std::string types_text(const std::vector<LayerTensor>& tensors) {
  std::string text;
  for (const auto& tensor : tensors) text += (text.empty() ? "" : ", ") + to_string(tensor.type);
  return text;
}

Json layers_json(const Plan& plan, const PlanVariant& variant) {
  Json list = Json::array();
  for (const auto& layer : describe_layers(plan, variant, std::nullopt).layers) {
    std::vector<std::string> nodes;
    for (const auto& origin : layer.origins) nodes.push_back(origin.name);
    list.push_back({{"name", layer.name},
                    {"type", layer.parameter_type.empty() ? layer.type : layer.parameter_type},
                    {"runner", layer.type},
                    {"tactic", layer.tactic},
                    {"time_ms", layer.tactic_ms},
                    {"inputs", types_text(layer.inputs)},
                    {"outputs", types_text(layer.outputs)},
                    {"onnx_nodes", nodes}});
  }
  return list;
}

Json profiles_json(const Plan& plan) {
  Json list = Json::array();
  for (size_t i = 0; i < plan.profiles.size(); ++i) {
    for (const auto& [name, range] : plan.profiles[i].shapes) {
      list.push_back({{"profile", i},
                      {"input", name},
                      {"min", to_string(range.min)},
                      {"opt", to_string(range.opt)},
                      {"max", to_string(range.max)}});
    }
  }
  return list;
}

Json inspect_engine(const std::string& file, std::shared_ptr<PluginSource> plugins) {
  const auto plan = Plan::read(file, std::move(plugins));
  Json json;
  json["file"] = file;
  json["kind"] = "engine";
  json["written_by"] = "Lathe " + plan->lathe_version;
  json["model"] = plan->model.name;
  json["producer"] =
      plan->model.producer + (plan->model.producer_version.empty() ? "" : " " + plan->model.producer_version);
  json["opset"] = plan->model.opset_version;
  json["file_bytes"] = plan->file_bytes();
  json["inputs"] = tensors_json(plan->inputs);
  json["outputs"] = tensors_json(plan->outputs);
  json["profiles"] = profiles_json(*plan);
  json["targets"] = Json::array();
  for (size_t s = 0; s < plan->section_count(); ++s) {
    const auto section = plan->section(s);
    Json target = {{"backend", section->target.backend},
                   {"device", section->target.description},
                   {"settings", section->settings},
                   {"timed", section->timed}};
    target["variants"] = Json::array();
    for (size_t v = 0; v < section->variants.size(); ++v) {
      const auto& variant = section->variants[v];
      target["variants"].push_back({{"profile", v},
                                    {"arena_bytes", variant.memory.arena_bytes},
                                    {"arena_bytes_without_reuse", variant.memory.unshared_bytes},
                                    {"predicted_ms", variant.predicted_ms(section->target.threads)},
                                    {"measured_ms", variant.measured_ms},
                                    {"batch_part", variant.split.part},
                                    {"layers", layers_json(*plan, variant)}});
    }
    json["targets"].push_back(std::move(target));
  }
  return json;
}

void print_pairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  for (const auto& [key, value] : pairs) {
    if (!value.empty()) say("  {:<12}{}\n", key, value);
  }
}

void print_tensors(const Json& json) {
  Table table({{"", Align::Left}, {"name"}, {"type"}, {"shape"}});
  for (const char* side : {"inputs", "outputs"}) {
    for (const auto& tensor : json.at(side)) {
      table.add({std::string(side).substr(0, std::string(side).size() - 1), tensor.at("name"),
                 tensor.at("type"), tensor.at("shape")});
    }
  }
  say("\n{}", table.text());
}

void print_model(const Json& json) {
  say("{}\n", json.at("file").get<std::string>());
  print_pairs({{"producer", json.at("producer")},
               {"opset", fmt::format("{} (IR version {})", json.at("opset").get<int64_t>(),
                                     json.at("ir_version").get<int64_t>())},
               {"nodes", fmt::format("{}, {} after import", json.at("nodes").get<int64_t>(),
                                     json.at("nodes_after_import").get<int64_t>())},
               {"weights", fmt::format("{} in {} parameters", bytes_text(json.at("weight_bytes")),
                                       count_text(json.at("parameters")))}});
  print_tensors(json);
  Table table({{"operator"}, {"nodes", Align::Right}, {"becomes"}});
  for (const auto& entry : json.at("operators")) {
    table.add({entry.at("operator"), std::to_string(entry.at("count").get<int64_t>()),
               fmt::format("{}", fmt::join(entry.at("becomes").get<std::vector<std::string>>(), ", "))});
  }
  say("\n{}", table.text());
}

void print_variant(const Json& variant) {
  say("\n  profile {}: {} of activations per context ({} without reuse)\n",
      variant.at("profile").get<int64_t>(), bytes_text(variant.at("arena_bytes")),
      bytes_text(variant.at("arena_bytes_without_reuse")));
  const double predicted = variant.at("predicted_ms"), measured = variant.at("measured_ms");
  if (measured > 0)
    say("  predicted {} (the sum of its layers), measured {}: {:.0f} %\n", explorer::ms_text(predicted),
        explorer::ms_text(measured), predicted / measured * 100);
  if (const int64_t part = variant.at("batch_part"); part > 0)
    say("  the batch in parts of {}, each on one thread; layers and activations below are one part's\n",
        part);
  // Names as the explorer shortens them; the whole ones are in --json.
  Table table({{"#", Align::Right},
               {"ms", Align::Right},
               {"type", Align::Left, 8},
               {"reads", Align::Left, 10},
               {"writes", Align::Left, 10},
               {"tactic", Align::Left, 12},
               {"layer", Align::Left, 16}});
  int number = 0;
  for (const auto& layer : variant.at("layers")) {
    const double ms = layer.at("time_ms");
    table.add({std::to_string(number++), ms > 0 ? explorer::three_digits(ms) : "-", layer.at("type"),
               layer.at("inputs"), layer.at("outputs"), layer.at("tactic"),
               explorer::layer_label(layer.at("name").get<std::string>())});
  }
  say("{}", table.text(terminal_width()));
}

void print_engine(const Json& json) {
  say("{}\n", json.at("file").get<std::string>());
  print_pairs({{"written by", json.at("written_by")},
               {"model", json.at("model")},
               {"producer", json.at("producer")},
               {"opset", std::to_string(json.at("opset").get<int64_t>())},
               {"size", bytes_text(json.at("file_bytes"))}});
  print_tensors(json);
  Table profiles({{"profile", Align::Right}, {"input"}, {"min"}, {"opt"}, {"max"}});
  for (const auto& entry : json.at("profiles")) {
    profiles.add({std::to_string(entry.at("profile").get<int64_t>()), entry.at("input"), entry.at("min"),
                  entry.at("opt"), entry.at("max")});
  }
  if (!profiles.empty()) say("\n{}", profiles.text());
  for (const auto& target : json.at("targets")) {
    say("\ntarget {}: {}\n  {}, {}\n", target.at("backend").get<std::string>(),
        target.at("device").get<std::string>(), target.at("settings").get<std::string>(),
        target.at("timed").get<bool>() ? "timed" : "untimed (first tactics)");
    for (const auto& variant : target.at("variants")) print_variant(variant);
  }
}

// ONNX files begin with field 1 of ModelProto (ir_version); engine files with their own mark.
bool looks_like_onnx(const std::string& file) {
  const auto mapped = MappedFile::open(file);
  const auto bytes = mapped->bytes();
  return file.ends_with(".onnx") || (!bytes.empty() && bytes[0] == std::byte{0x08});
}

}  // namespace

int run_inspect(const Words& words) {
  const CommandWords arguments(words, command_syntax("inspect"));
  if (arguments.positional().size() != 1)
    throw_input_error("inspect takes one file: lathe inspect model.onnx");
  const std::string& file = arguments.positional()[0];
  const bool is_model = looks_like_onnx(file);
  if (arguments.has("--graph")) {
    if (!is_model)
      throw_input_error(
          fmt::format("{}: --graph is for models; an engine's layers are in `lathe inspect --json`", file));
    say("{}\n", dump_json(model_graph_json(file)));
    return 0;
  }
  const auto plugins = open_plugins(system_flags_of(arguments), nullptr);
  const Json json = is_model ? inspect_model(file, *plugins) : inspect_engine(file, plugins);
  if (arguments.has("--json")) {
    say("{}\n", dump_json(json));
  } else {
    is_model ? print_model(json) : print_engine(json);
  }
  return 0;
}

}  // namespace lathe::cli
