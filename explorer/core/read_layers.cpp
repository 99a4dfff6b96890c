// SPDX-License-Identifier: Apache-2.0
//
// Layer information, all dialects: TensorRT 8 to 10 ("Bindings", "Format/Datatype"), 11 ("I/O Tensors",
// "Format" and "Datatype"), ours (both), a bare list of layers, and names alone. What is missing stays
// unknown; only what would make every later number wrong (a layer without a name, dimensions that are no
// numbers) is refused.
#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/json.h"
#include "explorer/core/readers.h"
#include "explorer/core/tensor_words.h"

namespace lathe::explorer {
namespace {

// Keys that have a field of their own in Layer; all others are kept as attributes.
constexpr std::array<std::string_view, 9> kOwnKeys = {"Name",        "LayerType", "ParameterType",
                                                      "Inputs",      "Outputs",   "TacticName",
                                                      "TacticValue", "StreamId",  "Metadata"};

bool is_own_key(const std::string& key) {
  for (const auto own : kOwnKeys) {
    if (key == own) return true;
  }
  return false;
}

// Words for the layout without those for the type when the file has them apart; else the whole phrase.
void read_type(const JsonAt& at, std::string& type, std::string& format) {
  const auto joint = at.find("Format/Datatype");
  const auto split = at.find("Format");
  auto datatype = at.find("Datatype");
  if (!datatype) datatype = at.find("DataType");
  if (datatype) type = element_type(datatype->text());
  // A bare "Float" says nothing of the layout; where the file has that apart, it is the one to show.
  if (joint && (!split || joint->text().find(' ') != std::string::npos)) {
    format = joint->text();
  } else if (split) {
    format = split->text();
  }
  std::erase(format, '.');
  if (type.empty()) type = element_type(format);
}

TensorUse read_tensor(const JsonAt& at) {
  TensorUse tensor;
  tensor.name = at.at("Name").text();
  if (const auto dims = at.find("Dimensions")) tensor.shape = dims->integers();
  read_type(at, tensor.type, tensor.format);
  if (at.find("Dimensions")) tensor.bytes = tensor_bytes(tensor.shape, tensor.type, tensor.format);
  if (const auto inside = at.find("AliasOf")) {
    tensor.inside = inside->text();
    tensor.offset = at.at("AliasOffset").integer();
  } else if (const auto offset = at.find("ArenaOffset")) {
    tensor.offset = offset->integer();
  }
  return tensor;
}

std::vector<TensorUse> read_tensors(const JsonAt& layer, std::string_view side) {
  std::vector<TensorUse> tensors;
  const auto list = layer.find(side);
  if (!list) return tensors;
  for (size_t i = 0; i < list->size(); ++i) tensors.push_back(read_tensor(list->item(i)));
  return tensors;
}

void read_costs(const JsonAt& at, Layer& layer) {
  const auto flops = at.find("Flops"), read = at.find("BytesRead"), written = at.find("BytesWritten");
  if (flops) {
    layer.flops = flops->number();
    layer.flops_source = "given";
  }
  if (read) layer.bytes_read = read->integer();
  if (written) layer.bytes_written = written->integer();
}

// Ours lists each ONNX node with its costs; others name them in Metadata.
void read_origins(const JsonAt& at, Layer& layer) {
  if (const auto held = at.find("OnnxNodes")) {
    const auto nodes =
        held->json().is_object() ? held->find("Nodes") : held;  // a list in files of the first releases
    if (!nodes) held->fail("an object with the key Nodes");
    for (size_t i = 0; i < nodes->size(); ++i) {
      const JsonAt node = nodes->item(i);
      LayerOrigin origin{node.at("Name").text(), text_or(node, "OpType", ""), {}, {}, {}};
      if (const auto flops = node.find("Flops")) origin.flops = flops->number();
      if (const auto bytes = node.find("Bytes")) origin.bytes = bytes->integer();
      if (const auto saved = node.find("SavedBytes")) origin.saved_bytes = saved->integer();
      layer.origins.push_back(std::move(origin));
    }
    return;
  }
  const auto metadata = at.find("Metadata");
  for (auto& name : metadata_origins(metadata ? metadata->text() : ""))
    layer.origins.push_back({std::move(name), "", {}, {}, {}});
  if (layer.origins.empty() && !metadata && layer.type != "Reformat") {
    for (auto& name : name_origins(layer.name)) layer.origins.push_back({std::move(name), "", {}, {}, {}});
    layer.origins_from_name = !layer.origins.empty();
  }
}

// What the builder timed before it chose: ours alone.
void read_tuning(const JsonAt& at, Layer& layer) {
  const auto held = at.find("Tuning");
  if (!held) return;
  Tuning tuning;
  if (const auto timed = held->find("Timed")) {
    for (size_t i = 0; i < timed->size(); ++i) {
      const JsonAt item = timed->item(i);
      TimedTactic tactic{
          item.at("Name").text(), text_or(item, "Runner", ""), text_or(item, "Types", ""), {}, false};
      if (const auto ms = item.find("Ms")) tactic.ms = ms->number();
      tactic.chosen = text_or(item, "Chosen", "") == "yes";
      tuning.timed.push_back(std::move(tactic));
    }
  }
  if (const auto refused = held->find("Refused")) {
    for (size_t i = 0; i < refused->size(); ++i) {
      const JsonAt item = refused->item(i);
      tuning.refused.push_back(
          {item.at("Name").text(), text_or(item, "Runner", ""), text_or(item, "Reason", "")});
    }
  }
  if (const auto left_out = held->find("LeftOut")) tuning.left_out = left_out->integer();
  layer.tuning = std::move(tuning);
}

Layer read_layer(const JsonAt& at) {
  Layer layer;
  layer.name = clean_name(at.at("Name").text());
  layer.runner = at.at("LayerType").text();
  layer.type = text_or(at, "ParameterType", layer.runner);
  if (layer.runner == "CaskDeconvolutionV2" && layer.type == "Convolution") layer.type = "Deconvolution";
  layer.tactic = text_or(at, "TacticName", "");
  if (const auto id = at.find("TacticValue"))
    layer.tactic_id = id->json().is_string() ? id->text() : dump_json(id->json(), -1);
  if (const auto stream = at.find("StreamId")) layer.stream = stream->integer();
  layer.inputs = read_tensors(at, "Inputs");
  layer.outputs = read_tensors(at, "Outputs");
  read_origins(at, layer);
  read_costs(at, layer);
  read_tuning(at, layer);
  layer.fallback = text_or(at, "Fallback", layer.tactic.starts_with("reference_") ? layer.tactic : "");
  Json attributes = Json::object();
  for (const auto& [key, value] : at.json().items()) {
    if (!is_own_key(key) && key != "OnnxNodes" && key != "Tuning") attributes[key] = value;
  }
  layer.attributes = std::move(attributes);
  for (const char* key : {"Weights", "Bias"}) {
    const auto weights = at.find(key);
    if (weights && !weights->json().is_object()) weights->fail("an object {Type, Count}");
  }
  return layer;
}

Binding read_io_tensor(const JsonAt& at) {
  Binding binding;
  binding.name = at.at("Name").text();
  const std::string mode = text_or(at, "IOMode", "");
  binding.io = mode == "Input" ? "input" : mode == "Output" ? "output" : "unknown";
  if (const auto dims = at.find("Dimensions")) binding.shape = dims->integers();
  if (const auto type = at.find("DataType") ? at.find("DataType") : at.find("Datatype"))
    binding.type = element_type(type->text());
  if (const auto profiles = at.find("ProfileInfo")) {
    for (size_t i = 0; i < profiles->size(); ++i) {
      const JsonAt info = profiles->item(i);
      ShapeProfile profile;
      if (const auto shape = info.find("MinShape")) profile.min = shape->integers();
      if (const auto shape = info.find("OptShape")) profile.opt = shape->integers();
      if (const auto shape = info.find("MaxShape")) profile.max = shape->integers();
      if (const auto format = info.find("Format"); format && binding.format.empty())
        binding.format = format->text();
      binding.profiles.push_back(std::move(profile));
    }
  }
  if (at.find("Dimensions")) binding.bytes = tensor_bytes(binding.shape, binding.type, binding.format);
  return binding;
}

void read_bindings(const JsonAt& root, LayerFile& file) {
  if (const auto io = root.find("I/O Tensors")) {
    for (size_t i = 0; i < io->size(); ++i) file.bindings.push_back(read_io_tensor(io->item(i)));
    return;
  }
  const auto names = root.find("Bindings");
  if (!names) return;
  for (size_t i = 0; i < names->size(); ++i) {
    Binding binding;
    binding.name = names->item(i).text();
    file.bindings.push_back(std::move(binding));
  }
}

// Features tell the release: 11 splits the format, 10 prints bare type words for generated kernels, 8.6 and 9
// know streams and metadata, older ones do not. 9 is told from 8.6 by nothing but its generated-kernel
// layers.
std::string dialect_of(const JsonAt& root, const std::vector<Layer>& layers) {
  if (root.json().is_object()) {
    if (root.find("Producer") && root.at("Producer").json().is_string() &&
        root.at("Producer").text().starts_with("Lathe"))
      return "lathe";
    if (root.find("I/O Tensors") && root.find("Bindings")) return "lathe";
    if (root.find("I/O Tensors")) return "tensorrt-11";
  }
  bool generated = false, short_words = false, streams = false;
  const JsonAt list = root.json().is_array() ? root : root.at("Layers");
  for (size_t i = 0; i < layers.size(); ++i) {
    generated = generated || layers[i].name.starts_with("__my") || layers[i].runner == "kgen" ||
                layers[i].runner == "gemm";
    streams = streams || list.item(i).find("StreamId") || list.item(i).find("Metadata");
    for (const auto& tensor : layers[i].inputs) {
      if (tensor.format.find(' ') == std::string::npos && !tensor.format.empty()) short_words = true;
    }
  }
  if (short_words) return "tensorrt-10";
  if (generated) return "tensorrt-9";
  return streams ? "tensorrt-9" : "tensorrt-8";
}

}  // namespace

LayerFile read_layers(const InputFile& input) {
  const JsonAt root(*input.json, input.name + ": ");
  LayerFile file;
  const JsonAt list = root.json().is_array() ? root : root.at("Layers");
  if (list.size() == 0) {
    throw_input_error(
        fmt::format("{}: Layers is empty: the engine was built with --profilingVerbosity=none; build it with "
                    "--profilingVerbosity=detailed",
                    input.name));
  }
  file.names_only = list.item(0).json().is_string();
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonAt at = list.item(i);
    if (!file.names_only) {
      file.layers.push_back(read_layer(at));
      continue;
    }
    Layer layer;
    layer.name = clean_name(at.text());
    layer.runner = layer.type = "";
    for (auto& name : name_origins(layer.name)) layer.origins.push_back({std::move(name), "", {}, {}, {}});
    layer.origins_from_name = !layer.origins.empty();
    file.layers.push_back(std::move(layer));
  }
  if (root.json().is_object()) {
    read_bindings(root, file);
    file.producer = text_or(root, "Producer", "");
    file.settings = text_or(root, "BuildSettings", "");
    if (const auto bytes = root.find("ArenaBytes")) file.arena_bytes = bytes->integer();
  }
  for (size_t i = 0; i < file.layers.size(); ++i) file.layers[i].file_position = static_cast<int>(i);
  file.dialect = file.names_only ? "names-only" : dialect_of(root, file.layers);
  return file;
}

}  // namespace lathe::explorer
