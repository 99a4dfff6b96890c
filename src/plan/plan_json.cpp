// SPDX-License-Identifier: Apache-2.0
//
// Hashes catch damage before this code sees a byte; that the parts of a section fit together is
// check_variant.h's.
#include "plan/plan_json.h"

#include <algorithm>

#include "backend/packing.h"
#include "base/error.h"
#include "base/json.h"
#include "ir/text.h"
#include "ops/build.h"
#include "plan/block_numbers.h"
#include "plan/check_variant.h"
#include "plan/made_constants.h"
#include "plugin/built_in.h"

namespace lathe {
namespace {

// --- small pieces

Json to_json(const Shape& shape) {
  Json json = Json::array();
  for (const Dim& d : shape) json.push_back(d.to_string());
  return json;
}
Shape shape_from(const Json& json) {
  Shape shape;
  for (const Json& d : json) shape.push_back(Dim::parse(d.get<std::string>()));
  return shape;
}

DType dtype_from(const std::string& name) {
  const auto dtype = dtype_from_name(name);
  if (!dtype) throw_input_error("unknown element type '" + name + "'");
  return *dtype;
}

Json to_json(const TensorType& type) {
  return type.dtype == DType::Undefined ? std::string("-")
                                        : std::string(dtype_name(type.dtype)) + ":" + to_string(type.format);
}
TensorType type_from(const Json& json) {
  const auto text = json.get<std::string>();
  if (text == "-") return {};
  const size_t colon = text.find(':');
  if (colon == text.npos) throw_input_error("'" + text + "' is no tensor type");
  return {dtype_from(text.substr(0, colon)), format_from_string(text.substr(colon + 1))};
}
Json to_json(const std::vector<TensorType>& types) {
  Json json = Json::array();
  for (const TensorType& t : types) json.push_back(to_json(t));
  return json;
}
std::vector<TensorType> types_from(const Json& json) {
  std::vector<TensorType> types;
  for (const Json& t : json) types.push_back(type_from(t));
  return types;
}

// "float32"; with its format where that is not linear, so that a reader who knows linear memory only does not
// take it for such.
std::string io_type_text(const TensorInfo& info) {
  const std::string type(dtype_name(info.dtype));
  return info.format.is_linear() ? type : type + ":" + to_string(info.format);
}
void read_io_type(const Json& json, TensorInfo& info) {
  const auto text = json.get<std::string>();
  const size_t colon = text.find(':');
  info.dtype = dtype_from(text.substr(0, colon));
  if (colon == text.npos) return;
  info.format = format_from_string(text.substr(colon + 1));
  if (!info.format.is_linear() && info.shape.size() < 3)
    throw_input_error("'" + info.name + "' has format " + to_string(info.format) + " but no channels");
}

Json to_json(const std::vector<TensorInfo>& infos) {
  Json json = Json::array();
  for (const TensorInfo& t : infos) {
    Json entry = {{"name", t.name}, {"dtype", io_type_text(t)}, {"shape", to_json(t.shape)}};
    if (t.contents) entry["contents"] = to_json(*t.contents);
    if (t.is_string) entry["strings"] = true;
    json.push_back(std::move(entry));
  }
  return json;
}
std::vector<TensorInfo> infos_from(const Json& json) {
  std::vector<TensorInfo> infos;
  for (const Json& j : json) {
    TensorInfo t{.name = j.at("name"), .shape = shape_from(j.at("shape"))};
    read_io_type(j.at("dtype"), t);
    if (j.contains("contents")) t.contents = shape_from(j.at("contents"));
    t.is_string = j.value("strings", false);
    if (t.is_string && (t.dtype != DType::UInt8 || t.shape.empty()))
      throw_input_error("'" + t.name + "' is said to be strings, and is no uint8 with a dim of bytes");
    infos.push_back(std::move(t));
  }
  return infos;
}

Json to_json(const std::map<std::string, ShapeRange, std::less<>>& ranges) {
  Json json = Json::object();
  for (const auto& [name, r] : ranges) json[name] = {r.min, r.opt, r.max};
  return json;
}
std::map<std::string, ShapeRange, std::less<>> shape_ranges_from(const Json& json) {
  std::map<std::string, ShapeRange, std::less<>> ranges;
  for (const auto& [name, r] : json.items()) ranges[name] = {r.at(0), r.at(1), r.at(2)};
  return ranges;
}

// --- graphs

// `keep`: whether a constant's bytes are stored. Those of bodies, which have no id here, always are. `made`:
// takes what follows from other constants; null: that is stored like the rest.
Json graph_json(const Graph& graph, ContainerWriter& blocks, const std::function<bool(ValueId)>& keep,
                MadeConstantsWriter* made = nullptr) {
  Json constants = Json::array();
  const auto store = [&](ValueId id, const Tensor& tensor) {
    Json entry = {dtype_name(tensor.dtype()), tensor.extents(), -1};
    if (id != kNoValue && made != nullptr && tensor.recipe())
      entry.push_back(made->add(tensor));
    else if (tensor.has_bytes() && (id == kNoValue || keep(id)))
      entry[2] = blocks.add_block(tensor.bytes());
    constants.push_back(std::move(entry));
    return static_cast<int64_t>(constants.size() - 1);
  };
  std::string text = to_text(graph, {.constant_index = store});
  return {{"text", std::move(text)}, {"constants", std::move(constants)}};
}

Graph graph_from(const Json& json, const ContainerReader& file, std::span<const Tensor> made = {}) {
  const Json& constants = json.at("constants");
  const auto load = [&](int64_t index) -> Tensor {
    if (index < 0 || index >= static_cast<int64_t>(constants.size()))
      throw_input_error("a constant refers to number " + std::to_string(index));
    const Json& c = constants[static_cast<size_t>(index)];
    const DType dtype = dtype_from(c.at(0));
    Extents extents = c.at(1).get<Extents>();
    int64_t elements = 1;
    for (const int64_t e : extents)
      if (e < 0 || __builtin_mul_overflow(elements, e, &elements) || elements > (int64_t{1} << 48))
        throw_input_error("a constant has absurd extents");
    const int64_t block = c.at(2);
    if (c.size() > 3) {
      const int64_t number = c.at(3);
      if (number < 0 || number >= static_cast<int64_t>(made.size()))
        throw_input_error("a constant is made by number " + std::to_string(number));
      const Tensor& tensor = made[static_cast<size_t>(number)];
      if (tensor.dtype() != dtype || tensor.size() != elements)
        throw_input_error("a constant has another type or size than what makes it");
      return tensor.reshaped(std::move(extents));
    }
    if (block == -1) return Tensor::without_bytes(dtype, std::move(extents));
    const auto bytes = file.block(block);
    if (static_cast<int64_t>(bytes.size()) != dtype_bytes(dtype, elements))
      throw_input_error("a constant's block has another size");
    return Tensor::wrap(dtype, std::move(extents), bytes, file.owner());
  };
  return parse_graph(json.at("text").get_ref<const std::string&>(), load);
}

// --- choices

Json to_json(const Tactic& t) {
  Json json = {{"runner", t.runner},
               {"name", t.name},
               {"id", t.id},
               {"in", to_json(t.inputs)},
               {"out", to_json(t.outputs)}};
  for (const auto& [name, value] : t.params.entries()) json["params"][name] = value;
  if (t.error_factor != 1) json["error"] = t.error_factor;
  if (!t.keeps_nan) json["keeps_nan"] = false;
  if (t.is_view) json["view"] = true;
  if (t.last_resort) json["last_resort"] = true;
  if (!t.in_place_inputs.empty()) json["in_place"] = t.in_place_inputs;
  for (const std::vector<Tactic>& body : t.bodies) {
    Json tactics = Json::array();
    for (const Tactic& tactic : body) tactics.push_back(to_json(tactic));
    json["bodies"].push_back(std::move(tactics));
  }
  return json;
}

Json to_json(const Choice& choice) {
  Json json = to_json(choice.tactic);
  json["ms"] = choice.time_ms;
  if (!choice.fallback.empty()) json["fallback"] = choice.fallback;
  return json;
}

// A backend judges what they say (backend/offered.h); here only that they are few numbers with short names.
TacticParams params_from(const Json& json) {
  constexpr size_t kMost = 128, kLongest = 32;
  TacticParams params;
  if (!json.is_object() || json.size() > kMost)
    throw_input_error("the parameters of a tactic are not " + std::to_string(kMost) + " numbers at most");
  for (const auto& [name, value] : json.items()) {
    if (name.empty() || name.size() > kLongest || !value.is_number_integer())
      throw_input_error("parameter '" + name.substr(0, kLongest) + "' of a tactic is no whole number");
    params.set(name, value.get<int64_t>());
  }
  return params;
}

Tactic tactic_from(const Json& json, int depth = 0) {
  constexpr int kDeepest = 64;  // more than the text of a graph may have (ir/text_parse.cpp)
  if (depth > kDeepest) throw_input_error("tactics of bodies are nested too deeply");
  Tactic t{.runner = json.at("runner"),
           .name = json.at("name"),
           .id = json.at("id"),
           .inputs = types_from(json.at("in")),
           .outputs = types_from(json.at("out"))};
  if (const auto params = json.find("params"); params != json.end()) t.params = params_from(*params);
  t.error_factor = json.value("error", 1.0);
  t.keeps_nan = json.value("keeps_nan", true);
  t.is_view = json.value("view", false);
  t.last_resort = json.value("last_resort", false);
  t.in_place_inputs = json.value("in_place", std::vector<int>{});
  if (const auto bodies = json.find("bodies"); bodies != json.end())
    for (const Json& body : *bodies) {
      t.bodies.emplace_back();
      for (const Json& tactic : body) t.bodies.back().push_back(tactic_from(tactic, depth + 1));
    }
  return t;
}

Choice choice_from(const Json& json) {
  return {tactic_from(json), json.at("ms"), json.value("fallback", "")};
}

// --- memory

// As the graph's text names them, so that a plan that was read is written as it was.
std::vector<ValueId> in_text_order(const Graph& graph) {
  std::vector<ValueId> values = graph.inputs();
  for (size_t v = 0; v < graph.value_count(); ++v)
    if (const auto id = static_cast<ValueId>(v); graph.value(id).is_constant()) values.push_back(id);
  for (const NodeId node : graph.order())
    for (const ValueId output : graph.node(node).outputs)
      if (output != kNoValue) values.push_back(output);
  return values;
}

// A list and not an object: an object of 100,000 names takes seconds to write and to read, because it keeps
// their order.
Json to_json(const Graph& graph, const MemoryPlan& memory) {
  Json placements = Json::array();
  for (const ValueId v : in_text_order(graph)) {
    const Placement& p = memory.placements[static_cast<size_t>(v)];
    const std::string& name = graph.value(v).name;
    switch (p.kind) {
      case Placement::Kind::None:
        break;
      case Placement::Kind::Arena:
        placements.push_back({name, "arena", p.offset});
        break;
      case Placement::Kind::Binding:
        placements.push_back({name, "binding", p.binding});
        break;
      case Placement::Kind::Constant:
        placements.push_back(Json::array({name, "constant"}));
        break;
      case Placement::Kind::View:
        placements.push_back({name, "view", graph.value(p.base).name, p.view_offset.to_string()});
        break;
      case Placement::Kind::Grown:
        placements.push_back({name, "grown", p.slot});
        break;
    }
  }
  return {{"arena_bytes", memory.arena_bytes},
          {"unshared_bytes", memory.unshared_bytes},
          {"slots", memory.slots},
          {"placements", std::move(placements)}};
}

MemoryPlan memory_from(const Json& json, const Graph& graph) {
  MemoryPlan memory;
  memory.arena_bytes = json.at("arena_bytes");
  memory.unshared_bytes = json.at("unshared_bytes");
  memory.slots = json.value("slots", 0);
  memory.placements.resize(graph.value_count());
  const auto find = [&](const std::string& name) {
    const auto id = graph.find_value(name);
    if (!id) throw_input_error("the memory plan names an unknown value '" + name + "'");
    return *id;
  };
  const auto read = [&](const std::string& name, const Json& j, size_t at) {
    const auto kind = j.at(at).get<std::string>();
    Placement& p = memory.placements[static_cast<size_t>(find(name))];
    if (kind == "arena")
      p = {.kind = Placement::Kind::Arena, .offset = j.at(at + 1)};
    else if (kind == "binding")
      p = {.kind = Placement::Kind::Binding, .binding = j.at(at + 1)};
    else if (kind == "constant")
      p = {.kind = Placement::Kind::Constant};
    else if (kind == "view")
      p = {.kind = Placement::Kind::View,
           .base = find(j.at(at + 1)),
           .view_offset = Dim::parse(j.at(at + 2).get<std::string>())};
    else if (kind == "grown")
      p = {.kind = Placement::Kind::Grown, .slot = j.at(at + 1)};
    else
      throw_input_error("unknown placement '" + kind + "'");
  };
  const Json& placements = json.at("placements");
  if (placements.is_object())  // of an older file
    for (const auto& [name, j] : placements.items()) read(name, j, 0);
  else
    for (const Json& j : placements) read(j.at(0).get<std::string>(), j, 1);
  return memory;
}

// Errors of parts become errors of the file, whatever their kind was: the file is the input.
template <class F>
auto with_source(const std::string& source, F&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::System) throw;
    const std::string what = error.what();
    if (what.starts_with("engine file")) throw;
    throw_input_error("engine file '" + source + "' is damaged: " + what);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // wrong JSON types, missing keys
    throw_input_error("engine file '" + source + "' is damaged: " + error.what());
  }
}

// A file whose plugins are not there is not damaged.
void bind_code(Graph& graph, const PluginCodeSource& plugins, const std::string& source) {
  try {
    const plugin::WithBuiltIn source(plugins.source.get());
    bind_plugins(graph, &source, plugins.hint);
  } catch (Error& error) {
    throw_input_error("engine file '" + source + "' cannot be used: " + error.what());
  }
}

}  // namespace

std::string manifest_to_json(const Plan& plan, const std::vector<SectionInfo>& sections,
                             ContainerWriter& blocks) {
  const ModelMetadata& m = plan.model;
  Json json = {{"lathe", plan.lathe_version},
               {"model",
                {{"name", m.name},
                 {"producer", m.producer},
                 {"producer_version", m.producer_version},
                 {"domain", m.domain},
                 {"doc_string", m.doc_string},
                 {"ir_version", m.ir_version},
                 {"opset_version", m.opset_version},
                 {"model_version", m.model_version}}},
               {"inputs", to_json(plan.inputs)},
               {"outputs", to_json(plan.outputs)}};
  Json profiles = Json::array();
  for (const OptimizationProfile& p : plan.profiles)
    profiles.push_back({{"shapes", to_json(p.shapes)}, {"values", to_json(p.values)}});
  json["profiles"] = std::move(profiles);
  if (plan.is_stripped) json["stripped"] = true;
  if (plan.fast_load) json["fast_load"] = true;
  json["profiling_verbosity"] = static_cast<int>(plan.verbosity);
  Json targets = Json::array();
  for (const SectionInfo& s : sections)
    targets.push_back({{"backend", s.target.backend},
                       {"description", s.target.description},
                       {"key", s.target.key},
                       {"threads", s.target.threads},
                       {"settings", s.settings},
                       {"timed", s.timed}});
  json["targets"] = std::move(targets);
  for (const auto& [name, bytes] : plan.plugin_libraries)
    json["plugin_libraries"][name] = blocks.add_block(bytes);
  return dump_json(json, 1);
}

std::vector<SectionInfo> manifest_from_json(std::string_view text, const ContainerReader& file, Plan& plan) {
  return with_source(file.source(), [&] {
    const Json json = parse_json(text, "manifest");
    const Json& m = json.at("model");
    plan.lathe_version = json.at("lathe");
    plan.model = {.name = m.at("name"),
                  .producer = m.at("producer"),
                  .producer_version = m.at("producer_version"),
                  .domain = m.at("domain"),
                  .doc_string = m.at("doc_string"),
                  .ir_version = m.at("ir_version"),
                  .opset_version = m.at("opset_version"),
                  .model_version = m.at("model_version")};
    plan.inputs = infos_from(json.at("inputs"));
    plan.outputs = infos_from(json.at("outputs"));
    for (const Json& p : json.at("profiles")) {
      OptimizationProfile profile{shape_ranges_from(p.at("shapes")), shape_ranges_from(p.at("values"))};
      symbol_ranges(plan.inputs, profile);  // checks names, ranks and order
      plan.profiles.push_back(std::move(profile));
    }
    plan.is_stripped = json.value("stripped", false);
    plan.fast_load = json.value("fast_load", false);
    require(!plan.profiles.empty(), "it has no optimization profile");
    plan.verbosity =
        static_cast<ProfilingVerbosity>(std::clamp(json.at("profiling_verbosity").get<int>(), 0, 2));
    if (const auto libraries = json.find("plugin_libraries"); libraries != json.end()) {
      for (const auto& [name, block] : libraries->items()) {
        const auto bytes = file.block(block.get<int64_t>());
        plan.plugin_libraries[name].assign(bytes.begin(), bytes.end());
      }
    }
    std::vector<SectionInfo> sections;
    for (const Json& t : json.at("targets"))
      sections.push_back({.target = {.backend = t.at("backend"),
                                     .description = t.at("description"),
                                     .key = t.at("key"),
                                     .threads = t.at("threads")},
                          .settings = t.at("settings"),
                          .timed = t.at("timed")});
    return sections;
  });
}

std::string graph_to_json(const Graph& graph, ContainerWriter& blocks) {
  return dump_json(graph_json(graph, blocks, [](ValueId) { return true; }), -1);
}

std::shared_ptr<const Graph> graph_from_json(std::string_view text, const ContainerReader& file,
                                             const PluginCodeSource& plugins) {
  return with_source(file.source(), [&]() -> std::shared_ptr<const Graph> {
    auto graph = std::make_shared<Graph>(graph_from(parse_json(text, "graph"), file));
    bind_code(*graph, plugins, file.source());
    verify_graph(*graph);
    return graph;
  });
}

namespace {

// Whether all that was packed can be packed again.
bool has_all_weights(const Graph& graph) {
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(static_cast<ValueId>(v));
    const Tensor& tensor = value.constant;
    if (tensor && tensor.size() > 0 && !tensor.has_bytes() && !tensor.recipe()) return false;
    if (tensor && value.quantization && value.quantization->scales.empty()) return false;  // ir/block_grid.h
  }
  return true;
}

}  // namespace

std::string section_to_json(const PlanSection& section, ContainerWriter& blocks, bool fast_load) {
  Json variants = Json::array();
  for (const PlanVariant& v : section.variants) {
    const bool with_packed = fast_load || !has_all_weights(*v.graph);
    MadeConstantsWriter made;
    const auto keep = [&](ValueId id) {
      return !with_packed || v.memory.placements[static_cast<size_t>(id)].kind == Placement::Kind::Constant ||
             static_cast<int64_t>(v.graph->value(id).constant.bytes().size()) <= kKeptConstantBytes;
    };
    Json choices = Json::array(), ranges = Json::object(), blobs = Json::array();
    for (const Choice& c : v.choices) choices.push_back(to_json(c));
    for (const auto& [symbol, r] : v.ranges) ranges[symbol] = {r.min, r.opt, r.max};
    for (const auto& [key, bytes] : v.blobs->entries())
      if (with_packed || key.starts_with(kCompiledBlocks)) blobs.push_back({key, blocks.add_block(bytes)});
    variants.push_back({{"graph", graph_json(*v.graph, blocks, keep, with_packed ? nullptr : &made)},
                        {"choices", std::move(choices)},
                        {"memory", to_json(*v.graph, v.memory)},
                        {"ranges", std::move(ranges)},
                        {"measured_ms", v.measured_ms},
                        {"packed", std::move(blobs)}});
    if (!made.graph().outputs().empty())
      variants.back()["made"] = graph_json(made.graph(), blocks, [](ValueId) { return true; });
    if (!with_packed)
      if (Json numbers = block_numbers_json(*v.graph, blocks); !numbers.empty())
        variants.back()["block_numbers"] = std::move(numbers);
    if (!v.tuning.empty()) variants.back()["tuning"] = blocks.add_block(std::as_bytes(std::span(v.tuning)));
    if (v.split.on()) variants.back()["batch_split"] = {{"symbol", v.split.symbol}, {"part", v.split.part}};
  }
  return dump_json({{"variants", std::move(variants)}}, -1);
}

PlanSection section_from_json(std::string_view text, const SectionInfo& info, const SectionForm& form,
                              const ContainerReader& file) {
  return with_source(file.source(), [&] {
    PlanSection section{.target = info.target, .settings = info.settings, .timed = info.timed};
    const Json json = parse_json(text, "target section");
    const Json& variants = json.at("variants");
    require(variants.size() == form.profiles, "its section for " + info.target.description + " has " +
                                                  std::to_string(variants.size()) + " variants for " +
                                                  std::to_string(form.profiles) + " optimization profiles");
    for (const Json& j : variants) {
      PlanVariant v;
      std::vector<Tensor> made;
      if (const auto making = j.find("made"); making != j.end()) {
        const Graph graph = graph_from(*making, file);
        verify_graph(graph);
        made = made_constants(graph);
      }
      auto graph = std::make_shared<Graph>(graph_from(j.at("graph"), file, made));
      if (const auto numbers = j.find("block_numbers"); numbers != j.end())
        read_block_numbers(*numbers, *graph, file);
      bind_code(*graph, form.plugins, file.source());
      v.graph = graph;
      for (const Json& c : j.at("choices")) v.choices.push_back(choice_from(c));
      for (const auto& [symbol, r] : j.at("ranges").items())
        v.ranges[symbol] = {.min = r.at(0), .opt = r.at(1), .max = r.at(2)};
      if (const auto block = j.find("tuning"); block != j.end()) {
        const auto bytes = file.block(block->get<int64_t>());
        v.tuning.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
      v.measured_ms = j.value("measured_ms", 0.0);  // absent from files of version 0.1.0
      if (const auto split = j.find("batch_split"); split != j.end())
        v.split = {split->at("symbol"), split->at("part")};
      v.memory = memory_from(j.at("memory"), *graph);
      check_variant(v, form.stripped ? WeightBytes::Absent : WeightBytes::Present);
      v.blobs = std::make_shared<PackedBlocks>(false);
      const auto add = [&](const std::string& key, const Json& block) {
        v.blobs->add(key, file.block(block.get<int64_t>()), file.owner());
      };
      const Json& packed = j.at("packed");
      if (packed.is_object())  // of an older file
        for (const auto& [key, block] : packed.items()) add(key, block);
      else
        for (const Json& entry : packed) add(entry.at(0).get<std::string>(), entry.at(1));
      section.variants.push_back(std::move(v));
    }
    return section;
  });
}

}  // namespace lathe
