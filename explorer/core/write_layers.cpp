// SPDX-License-Identifier: Apache-2.0
//
// trex looks types up in a table of phrases of TensorRT 8 to 10 and counts everything else as 0 bytes, so
// each type gets a phrase that is in it; vectorised layouts keep theirs. It fails on a reformat without
// origin and on a convolution that is not 2-D, which therefore gets a name of its own.
#include "explorer/core/write_layers.h"

#include <fmt/format.h>

#include <array>
#include <unordered_map>

#include "base/json.h"
#include "explorer/core/tensor_words.h"

namespace lathe::explorer {
namespace {

struct Phrase {
  std::string_view type, linear, alone, split;
};
// BF16 in its short form: trex gives the long one no bytes.
constexpr std::array<Phrase, 12> kPhrases = {{
    {"FP32", "Row major linear FP32", "Float", "Float"},
    {"FP16", "Row major linear FP16 format", "Half", "Half"},
    {"BF16", "BFloat16", "BFloat16", "BFloat16"},
    {"INT8", "Row major Int8 format", "Int8", "Int8"},
    {"INT32", "Row major linear Int32", "Int32", "Int32"},
    {"INT64", "Row major linear Int64 format", "Int64", "Int64"},
    {"UINT8", "Row major linear UInt8 format", "UInt8", "UInt8"},
    {"FP8", "Row major linear FP8 format", "FP8", "FP8"},
    {"BOOL", "Row major linear BOOL", "Bool", "Bool"},
    {"FP64", "Double", "Double", "Double"},
    {"INT4", "Int4", "Int4", "Int4"},
    {"FP4", "FP4", "FP4", "FP4"},
}};

const Phrase* phrase_of(const std::string& type) {
  for (const auto& phrase : kPhrases) {
    if (phrase.type == type) return &phrase;
  }
  return nullptr;
}

std::string format_text(const TensorUse& use) {
  std::string format = use.format;
  if (const size_t kind = format.find(" (k"); kind != std::string::npos) format.resize(kind);
  const Phrase* phrase = phrase_of(use.type);
  const bool vectorised =
      format.find("vectorized") != std::string::npos || format.find("Channel major") != std::string::npos;
  if (vectorised && element_type(format) == use.type) return format;
  if (phrase == nullptr) return format.empty() ? use.type : format;
  return std::string(format.find("linear") != std::string::npos || vectorised ? phrase->linear
                                                                              : phrase->alone);
}

Json tensor_json(const std::string& name, const TensorUse& use) {
  const Phrase* phrase = phrase_of(use.type);
  return {{"Name", name},
          {"Location", "Device"},
          {"Dimensions", use.shape},
          {"Format/Datatype", format_text(use)},
          {"Format", use.format},
          {"Datatype", phrase != nullptr ? std::string(phrase->split) : use.type}};
}

std::string type_of(const Layer& layer) {
  if (layer.type != "Convolution") return layer.type;
  const Json& a = *layer.attributes;
  const bool flat = a.contains("Kernel") && a["Kernel"].is_array() && a["Kernel"].size() == 2 &&
                    a.contains("Groups") && !layer.inputs.empty() && layer.inputs[0].shape.size() == 4 &&
                    !layer.outputs.empty() && layer.outputs[0].shape.size() == 4;
  return flat ? layer.type : "ConvolutionND";
}

// Tensors by the names that the engine's graph has for them; with `once` each write of a name makes a name of
// its own.
class Names {
 public:
  Names(const EngineData& engine, bool once)
      : engine_(engine), once_(once), writes_(engine.tensors.size(), 0) {}
  std::string read(const TensorUse& use) const { return text(use, writes_[static_cast<size_t>(use.tensor)]); }
  std::string write(const TensorUse& use) { return text(use, ++writes_[static_cast<size_t>(use.tensor)]); }

 private:
  std::string text(const TensorUse& use, int write) const {
    const std::string& name = engine_.tensors[static_cast<size_t>(use.tensor)].name;
    return once_ && write > 1 ? fmt::format("{}.{}", name, write) : name;
  }
  const EngineData& engine_;
  bool once_;
  std::vector<int> writes_;
};

std::string metadata_of(const Layer& layer) {
  std::string text;
  for (const auto& origin : layer.origins)
    text += (text.empty() ? "" : "\x1e") + fmt::format("[ONNX Layer: {}]", origin.name);
  return text;
}

Json layer_json(const Layer& layer, Names& names) {
  Json json = {{"Name", layer.name}, {"LayerType", layer.runner.empty() ? layer.type : layer.runner}};
  json["Inputs"] = json["Outputs"] = Json::array();
  for (const auto& use : layer.inputs) json["Inputs"].push_back(tensor_json(names.read(use), use));
  for (const auto& use : layer.outputs) json["Outputs"].push_back(tensor_json(names.write(use), use));
  json["ParameterType"] = type_of(layer);
  for (const auto& [key, value] : layer.attributes->items()) {
    if (!json.contains(key) && !value.is_null()) json[key] = value;
  }
  if (layer.type == "Reformat" && !json.contains("Origin"))
    json["Origin"] = layer.kind == "cast" ? "QDQ" : "REFORMAT";
  if (!layer.tactic.empty()) json["TacticName"] = layer.tactic;
  if (!layer.tactic_id.empty()) json["TacticValue"] = layer.tactic_id;
  json["StreamId"] = layer.stream;
  json["Metadata"] = metadata_of(layer);
  return json;
}

// Every layer has a record; without one in what was read it is 0, which these tools take for not timed.
// TensorRT 8 has no medians, and none are made up.
Json profile_json(const EngineData& engine) {
  const double sum = engine.statistics.layer_sum_ms.value_or(-1);
  if (sum < 0) return nullptr;
  const int64_t count = engine.statistics.profile_iterations.value_or(1);
  const bool medians = engine.statistics.layer_median_sum_ms.has_value();
  Json json = Json::array({Json{{"count", count}}});
  for (const auto& layer : engine.layers) {
    const LayerTime time = layer.time.value_or(LayerTime{});
    Json record = {{"name", layer.name},
                   {"timeMs", time.total_ms.value_or(time.average_ms * static_cast<double>(count))},
                   {"averageMs", time.average_ms}};
    if (medians) record["medianMs"] = time.median_ms.value_or(time.average_ms);
    record["percentage"] = time.percent.value_or(sum > 0 ? 100 * time.average_ms / sum : 0);
    json.push_back(std::move(record));
  }
  return json;
}

Json layers_json(const EngineData& engine, bool once) {
  Names names(engine, once);
  Json layers = Json::array();
  for (const auto& layer : engine.layers) layers.push_back(layer_json(layer, names));
  return layers;
}

}  // namespace

ForeignFiles trex_files(const EngineData& engine) {
  Json bindings = Json::array();
  for (const auto& tensor : engine.tensors) {
    if (tensor.role == "input" || tensor.role == "output") bindings.push_back(tensor.name);
  }
  return {{{"Layers", layers_json(engine, false)}, {"Bindings", std::move(bindings)}}, profile_json(engine)};
}

ForeignFiles perf_analysis_files(const EngineData& engine) {
  return {layers_json(engine, true), profile_json(engine)};
}

}  // namespace lathe::explorer
