// SPDX-License-Identifier: Apache-2.0
//
// Where the nodes of the model went. Most are named by a layer, in its metadata or its name. A layer that
// names none (an opaque block, a file without metadata) holds what lies between its inputs and its outputs,
// found through the names of tensors. What is left over vanished, and the model itself mostly tells why:
//
//   unused    no output of the model depends on it
//   constant  it reads constants only: computed when the engine was built
//   shape     it computes with shapes, which are known before anything runs
//   no_op     it changes nothing: Identity, Dropout, a cast to the type that is there
//   view      it gives the same memory another shape
//   layout    it moves or repeats data, and no layer does: the layers around it write or read in that order
//   types     Q/DQ: its scale is part of the layers around it
//   expanded  other nodes stand for it (a function, a branch), and layers name those
//   unknown   none of these; the layers before and after it are named, as one of them may hold it
//
// The order matters: a reshape of a constant is a constant.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "explorer/core/analyse.h"
#include "explorer/core/tensor_words.h"

namespace lathe::explorer {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kFates = {{
    {"layer", "alone in a layer"},
    {"fused", "fused with others"},
    {"several", "run in several layers"},
    {"expanded", "expanded into others"},
    {"view", "as a view of memory"},
    {"layout", "as the order in which layers read or write"},
    {"no_op", "without effect"},
    {"constant", "constant"},
    {"shape", "shape arithmetic"},
    {"types", "quantization inside of layers"},
    {"unused", "unused"},
    {"unknown", "in no layer that says so"},
}};

void add_layer(OnnxNode& node, int layer) {
  if (node.layers.empty() || node.layers.back() != layer) node.layers.push_back(layer);
}

class Placement {
 public:
  explicit Placement(EngineData& engine) : engine_(engine), model_(*engine.onnx) {
    producer_.assign(model_.tensors.size(), -1);
    readers_.resize(model_.tensors.size());
    for (size_t i = 0; i < model_.tensors.size(); ++i)
      tensors_.emplace(model_.tensors[i].name, static_cast<int>(i));
    for (size_t i = 0; i < model_.nodes.size(); ++i) {
      const OnnxNode& node = model_.nodes[i];
      const int index = static_cast<int>(i);
      names_.emplace(node.name, index);
      for (const int t : node.outputs) {
        if (t >= 0) producer_[at(t)] = index;
      }
      for (const int t : node.inputs) {
        if (t >= 0) readers_[at(t)].push_back(index);
      }
    }
    // What TensorRT's importer calls a node without a name.
    for (size_t i = 0; i < model_.nodes.size(); ++i) {
      const OnnxNode& node = model_.nodes[i];
      if (!node.outputs.empty() && node.outputs[0] >= 0)
        names_.emplace("node_of_" + model_.tensors[at(node.outputs[0])].name, static_cast<int>(i));
    }
  }

  void run() {
    find_constants_and_shapes();
    for (auto& layer : engine_.layers) place_by_name(layer);
    for (auto& layer : engine_.layers) {
      if (!named_.contains(layer.index) && !layer.is_overhead() && layer.kind != "sync")
        place_by_tensors(layer);
    }
    check_common();
    find_unused();
    for (auto& node : model_.nodes) name_fate(node);
    count();
  }

 private:
  static size_t at(int index) { return static_cast<size_t>(index); }

  // The node of that name, or the call or branch whose inner node it is ("call/Relu_0").
  int find_node(const std::string& name) {
    if (const auto found = names_.find(name); found != names_.end()) return found->second;
    for (size_t slash = name.rfind('/'); slash != std::string::npos && slash > 0;
         slash = name.rfind('/', slash - 1)) {
      const auto found = names_.find(name.substr(0, slash));
      if (found != names_.end() && model_.nodes[at(found->second)].expands) return found->second;
    }
    return -1;
  }

  void place_by_name(Layer& layer) {
    for (auto& origin : layer.origins) {
      const int index = find_node(origin.name);
      if (index < 0) {
        if (!layer.origins_from_name) strangers_.push_back(origin.name);
        continue;
      }
      OnnxNode& node = model_.nodes[at(index)];
      add_layer(node, layer.index);
      named_.insert(layer.index);
      if (origin.op_type.empty() && !node.expands) origin.op_type = node.op_type;
    }
  }

  // The model's tensors at one side of a layer. Where a reformat or copy stands between, its other side has
  // the name.
  std::vector<int> tensors_at(const Layer& layer, bool inputs) const {
    constexpr int kMost = 8;
    std::vector<int> found;
    std::vector<std::pair<int, int>> open;  // tensors of the engine, how many steps away
    for (const auto& use : inputs ? layer.inputs : layer.outputs) open.emplace_back(use.tensor, 0);
    for (size_t next = 0; next < open.size(); ++next) {
      const auto [tensor, steps] = open[next];
      const Tensor& one = engine_.tensors[at(tensor)];
      if (const auto known = tensors_.find(one.name); known != tensors_.end()) {
        found.push_back(known->second);
        continue;
      }
      for (const int other : inputs ? one.producers : one.consumers) {
        const Layer& beside = engine_.layers[at(other)];
        if (!beside.is_overhead() || steps == kMost) continue;
        for (const auto& use : inputs ? beside.inputs : beside.outputs)
          open.emplace_back(use.tensor, steps + 1);
      }
    }
    return found;
  }

  // Backwards from the layer's outputs to its inputs, past nodes that no layer has yet and that compute
  // something. Whoever comes to an input of the model that is none of the layer's has left the layer on the
  // way: then nothing is known.
  void place_by_tensors(Layer& layer) {
    const auto inputs = tensors_at(layer, true);
    const std::unordered_set<int> borders(inputs.begin(), inputs.end());
    std::vector<int> open = tensors_at(layer, false), inside;
    std::unordered_set<int> seen;
    while (!open.empty()) {
      const int tensor = open.back();
      open.pop_back();
      if (borders.contains(tensor)) continue;
      if (model_.tensors[at(tensor)].role == "input") return;
      const int index = producer_[at(tensor)];
      if (index < 0 || !seen.insert(index).second) continue;
      const OnnxNode& node = model_.nodes[at(index)];
      if (!node.layers.empty() || constant_[at(tensor)] || shape_[at(tensor)]) continue;
      inside.push_back(index);
      for (const int input : node.inputs) {
        if (input >= 0) open.push_back(input);
      }
    }
    std::sort(inside.begin(), inside.end());
    const bool unnamed = layer.origins.empty();
    for (const int index : inside) {
      OnnxNode& node = model_.nodes[at(index)];
      add_layer(node, layer.index);
      node.by_tensors = true;
      if (unnamed) layer.origins.push_back({node.name, node.op_type, {}, {}, {}});
    }
    if (!inside.empty()) named_.insert(layer.index);
  }

  // A model of which the engine names nothing is another engine's.
  void check_common() {
    const std::string& layers = engine_.sources.front().file;
    if (named_.empty() && !model_.nodes.empty()) {
      throw_input_error(fmt::format(
          "{}: no layer of {} names one of its {} nodes (first: \"{}\") or tensors: the engine is not of "
          "this model",
          model_.file, layers, model_.nodes.size(), model_.nodes.front().name));
    }
    if (strangers_.empty()) return;
    engine_.note("warning",
                 fmt::format("{}: {} nodes that layers of {} name are not in it (first: {}): is it the model "
                             "that the engine was built from?",
                             model_.file, strangers_.size(), layers, strangers_.front()));
  }

  void find_unused() {
    used_.assign(model_.nodes.size(), false);
    std::vector<int> open;
    for (size_t t = 0; t < model_.tensors.size(); ++t) {
      if (model_.tensors[t].role == "output") open.push_back(static_cast<int>(t));
    }
    while (!open.empty()) {
      const int index = producer_[at(open.back())];
      open.pop_back();
      if (index < 0 || used_[at(index)]) continue;
      used_[at(index)] = true;
      for (const int input : model_.nodes[at(index)].inputs) {
        if (input >= 0) open.push_back(input);
      }
    }
  }

  // In the file's order, which is topological.
  void find_constants_and_shapes() {
    constant_.assign(model_.tensors.size(), false);
    shape_.assign(model_.tensors.size(), false);
    for (size_t t = 0; t < model_.tensors.size(); ++t) constant_[t] = model_.tensors[t].role == "initializer";
    for (const OnnxNode& node : model_.nodes) {
      bool constant = !node.inputs.empty() || node.op_type == "Constant";
      bool shape = !node.inputs.empty();
      for (const int input : node.inputs) {
        if (input < 0) continue;
        constant = constant && constant_[at(input)];
        shape = shape && (constant_[at(input)] || shape_[at(input)]);
      }
      shape = shape || node.op_type == "Shape" || node.op_type == "Size";
      if (node.op_type.starts_with("Random") || node.expands) constant = shape = false;
      for (const int output : node.outputs) {
        if (output < 0) continue;
        constant_[at(output)] = constant;
        shape_[at(output)] = shape && !constant;
      }
    }
  }

  const std::string& type_of(const std::vector<int>& tensors) const {
    static const std::string kNone;
    return tensors.empty() || tensors[0] < 0 ? kNone : model_.tensors[at(tensors[0])].type;
  }

  void name_fate(OnnxNode& node) {
    if (!node.layers.empty()) {
      name_placed(node);
      return;
    }
    const auto is = [&](std::string fate, std::string why) {
      node.fate = std::move(fate);
      node.why = std::move(why);
    };
    const size_t index = static_cast<size_t>(&node - model_.nodes.data());
    const bool has_output = !node.outputs.empty() && node.outputs[0] >= 0;
    if (!used_[index]) return is("unused", "no output of the model depends on it");
    if (has_output && constant_[at(node.outputs[0])])
      return is("constant", "computed once, when the engine was built");
    if (has_output && shape_[at(node.outputs[0])])
      return is("shape", "it computes with shapes, which are known before anything runs");
    if (is_one_of(node.op_type, {"Identity", "Dropout"}))
      return is("no_op", "it changes nothing when a model runs");
    if (node.op_type == "Cast" && !type_of(node.inputs).empty() &&
        type_of(node.inputs) == type_of(node.outputs))
      return is("no_op", fmt::format("its input is {} already", type_of(node.inputs)));
    if (is_one_of(node.op_type, {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}))
      return is("view", "the same memory with another shape");
    const std::string around = neighbours(node);
    if (is_one_of(node.op_type, {"Transpose", "Expand", "Slice", "Split", "Concat"}))
      return is("layout", "no layer moves data for it: the layers around it read or write in its order" +
                              (around.empty() ? "" : " (" + around + ")"));
    if (is_one_of(node.op_type, {"QuantizeLinear", "DequantizeLinear"}))
      return is("types",
                "its scale became part of the layers around it" + (around.empty() ? "" : ": " + around));
    is("unknown", "no layer names it" + (around.empty() ? "" : "; " + around));
  }

  void name_placed(OnnxNode& node) {
    const bool alone = sharers_of(node.layers[0]) == 1;
    node.fate = node.layers.size() > 1 ? "several" : alone ? "layer" : "fused";
    if (node.expands) node.fate = "expanded";
    if (node.by_tensors) node.why = "found through the names of tensors: the layer names no node";
  }

  int sharers_of(int layer) {
    if (sharers_.empty()) {
      sharers_.assign(engine_.layers.size(), 0);
      for (const auto& node : model_.nodes) {
        for (const int one : node.layers) ++sharers_[at(one)];
      }
    }
    return sharers_[at(layer)];
  }

  // The nearest layers on both sides, past nodes that have none.
  std::string neighbours(const OnnxNode& node) const {
    const auto before = nearest(node, true), after = nearest(node, false);
    std::string text;
    if (!before.empty()) text += "after layer " + before;
    if (!after.empty()) text += (text.empty() ? "before layer " : ", before layer ") + after;
    return text;
  }

  std::string nearest(const OnnxNode& node, bool backwards) const {
    constexpr size_t kMost = 3, kFar = 200;
    std::vector<int> open = backwards ? node.inputs : node.outputs;
    std::unordered_set<int> seen;
    std::vector<int> layers;
    for (size_t next = 0; next < open.size() && next < kFar; ++next) {
      if (open[next] < 0) continue;
      const std::vector<int> one = {producer_[at(open[next])]};
      for (const int index : backwards ? one : readers_[at(open[next])]) {
        if (index < 0 || !seen.insert(index).second) continue;
        const OnnxNode& other = model_.nodes[at(index)];
        const auto& further = backwards ? other.inputs : other.outputs;
        if (other.layers.empty()) {
          open.insert(open.end(), further.begin(), further.end());
        } else {
          layers.push_back(backwards ? other.layers.back() : other.layers.front());
        }
      }
    }
    std::sort(layers.begin(), layers.end());
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
    std::string text;
    for (size_t i = 0; i < std::min(layers.size(), kMost); ++i)
      text += fmt::format("{}{} ({})", i > 0 ? ", " : "", layers[i], engine_.layers[at(layers[i])].name);
    return layers.size() > kMost ? text + fmt::format(" and {} more", layers.size() - kMost) : text;
  }

  void count() {
    for (const auto& layer : engine_.layers) {
      if (!named_.contains(layer.index)) model_.own_layers.push_back(layer.index);
    }
    std::string parts;
    for (const auto& [fate, words] : kFates) {
      const auto number = std::count_if(model_.nodes.begin(), model_.nodes.end(),
                                        [&](const OnnxNode& node) { return node.fate == fate; });
      if (number == 0) continue;
      model_.fates.emplace_back(fate, static_cast<int>(number));
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", number, words);
    }
    model_.text = fmt::format("{} nodes: {}. {} of {} layers run nodes of the model", model_.nodes.size(),
                              parts, named_.size(), engine_.layers.size());
    model_.text +=
        model_.own_layers.empty()
            ? "."
            : fmt::format("; {} the engine's own.", model_.own_layers.size() == 1
                                                        ? "1 is"
                                                        : fmt::format("{} are", model_.own_layers.size()));
  }

  EngineData& engine_;
  OnnxModel& model_;
  std::unordered_map<std::string, int> names_, tensors_;
  std::vector<int> producer_;              // of each tensor, -1: none
  std::vector<std::vector<int>> readers_;  // of each tensor
  std::unordered_set<int> named_;          // layers that run a node
  std::vector<std::string> strangers_;     // nodes that layers name and the model does not have
  std::vector<bool> used_;                 // nodes
  std::vector<bool> constant_, shape_;     // tensors
  std::vector<int> sharers_;               // nodes of each layer
};

}  // namespace

void place_onnx_nodes(EngineData& engine) {
  if (engine.onnx) Placement(engine).run();
}

}  // namespace lathe::explorer
