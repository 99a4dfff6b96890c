// SPDX-License-Identifier: Apache-2.0
//
// Layers become a graph: constants become weights, no-ops become aliases, tensors get producers and
// consumers, and what a layer is for (compute, reformat, copy, cast, view, shape, sync, opaque) is named. A
// constant or no-op that the profile timed stays a layer: nothing that takes time disappears.
//
// A tensor name that is written more than once (slices of a concatenation, in-place updates) is one buffer
// with several producers; an edge goes from the last producer before each reader, or from all of them when
// none reads in between.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/json.h"
#include "explorer/core/analyse.h"
#include "explorer/core/tensor_words.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

bool takes_time(const Layer& layer) {
  return layer.time && layer.time->average_ms > 0;
}

// Reads of a folded no-op's result become reads of its operand.
struct Aliases {
  std::unordered_map<std::string, std::string> source;
  std::string resolve(const std::string& name) const {
    std::string result = name;
    for (size_t steps = 0; steps < 10000; ++steps) {  // a damaged file may hold a ring
      const auto found = source.find(result);
      if (found == source.end()) return result;
      result = found->second;
    }
    return name;
  }
};

std::string kind_of(const Layer& layer) {
  if (is_one_of(layer.runner, {"signal", "wait", "TrainStation"})) return "sync";
  if (layer.runner == "View") return "view";  // ours: another name for memory, no work
  if (is_one_of(layer.type,
                {"shape_call", "Shape", "ShapeOf", "ShapeHostToDevice", "ShapeTensor", "Constant", "entry"}))
    return "shape";
  const std::string& from = layer.input_precision;
  const std::string& to = layer.output_precision;
  const bool quantises = layer.attributes->contains("Origin") && (*layer.attributes)["Origin"] == "QDQ";
  if (layer.type == "Reformat" || layer.name.starts_with("Reformatting CopyNode")) {
    return quantises || (!from.empty() && !to.empty() && from != to) ? "cast" : "reformat";
  }
  if (is_one_of(layer.type, {"Cast", "Quantize", "Dequantize", "QuantizeLinear", "DequantizeLinear"}))
    return "cast";
  if (is_one_of(layer.type, {"Shuffle", "Slice", "Concat", "Concatenation", "Copy", "Identity", "Split",
                             "Transpose", "Expand", "Tile", "NoOp"}))
    return "copy";
  if (layer.runner == "Myelin" || layer.name.starts_with("{ForeignNode")) return "opaque";
  return "compute";
}

// The narrowest operand of a matrix product or convolution, else the type of the result: an index or a wide
// residual says nothing about the arithmetic.
std::string arithmetic_precision(const Layer& layer, bool matrix) {
  std::string best;
  const auto offer = [&](const std::string& type) {
    const bool usable = is_float_type(type) || is_one_of(type, {"INT8", "UINT8", "INT4", "UINT4"});
    if (usable && (best.empty() || element_bits(type) < element_bits(best))) best = type;
  };
  if (matrix) {
    for (size_t i = 0; i < std::min<size_t>(layer.inputs.size(), 2); ++i) offer(layer.inputs[i].type);
    // A type without a float operand at all (integer matrices) is that of its input.
    if (!best.empty()) return best;
  }
  const std::string result = layer.outputs.empty() ? "" : layer.outputs[0].type;
  if (is_float_type(result)) return result;
  for (const auto& input : layer.inputs) {
    if (is_float_type(input.type)) return input.type;
  }
  return !result.empty() ? result : layer.inputs.empty() ? "" : layer.inputs[0].type;
}

bool is_matrix_type(const std::string& type) {
  return type.starts_with("Convolution") || type == "DepthwiseBlock" ||
         is_one_of(type, {"Deconvolution", "MatrixMultiply", "gemm", "Gemm", "FullyConnected", "ConvActPool",
                          "Attention", "Conv", "DepthwiseBlock", "FeedForward", "MatMul", "fmha", "mha"});
}

void name_precisions(Layer& layer) {
  for (const auto& input : layer.inputs) {
    if (!input.is_weights && layer.input_precision.empty()) layer.input_precision = input.type;
  }
  if (layer.input_precision.empty() && !layer.inputs.empty()) layer.input_precision = layer.inputs[0].type;
  if (!layer.outputs.empty()) layer.output_precision = layer.outputs[0].type;
  layer.kind = kind_of(layer);
  layer.precision =
      layer.is_overhead() ? layer.output_precision : arithmetic_precision(layer, is_matrix_type(layer.type));
}

class TensorTable {
 public:
  explicit TensorTable(EngineData& engine) : engine_(engine) {}
  int index_of(const TensorUse& use) {
    const auto [found, added] = index_.emplace(use.name, static_cast<int>(engine_.tensors.size()));
    if (added)
      engine_.tensors.push_back(
          {use.name, use.shape, use.type, use.format, "activation", use.bytes, {}, {}, 0, 0, {}, {}});
    Tensor& tensor = engine_.tensors[static_cast<size_t>(found->second)];
    if (use.bytes &&
        (!tensor.bytes || *use.bytes > *tensor.bytes)) {  // the largest use stands for the buffer
      tensor.bytes = use.bytes;
      tensor.shape = use.shape;
    }
    return found->second;
  }
  std::optional<int> find(const std::string& name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  EngineData& engine_;
  std::unordered_map<std::string, int> index_;
};

// Takes constants and no-ops out of the layers.
Aliases fold_layers(EngineData& engine, std::unordered_map<std::string, bool>& constants) {
  Aliases aliases;
  std::unordered_map<std::string, bool> bindings;
  for (const auto& binding : engine.bindings) bindings[binding.name] = true;
  std::vector<Layer> kept;
  for (auto& layer : engine.layers) {
    const bool constant = layer.runner == "Constant" || layer.type == "Constant";
    const bool no_op = (layer.runner == "NoOp" || layer.type == "NoOp") && layer.inputs.size() == 1 &&
                       layer.outputs.size() == 1;
    if (constant && layer.inputs.empty()) {
      for (const auto& output : layer.outputs) constants[output.name] = true;
    }
    // Between two bindings a no-op is a copy, not an alias.
    const bool between_bindings =
        no_op && bindings.contains(layer.inputs[0].name) && bindings.contains(layer.outputs[0].name);
    if (takes_time(layer) || (!constant && !no_op) || between_bindings) {
      kept.push_back(std::move(layer));
    } else if (no_op) {
      // An alias that is a network output keeps the output's name: its operand takes it.
      if (bindings.contains(layer.outputs[0].name)) {
        aliases.source[layer.inputs[0].name] = layer.outputs[0].name;
      } else {
        aliases.source[layer.outputs[0].name] = layer.inputs[0].name;
      }
    }
  }
  engine.layers = std::move(kept);
  return aliases;
}

// Tensors that lie in another's memory. A name that no layer has, and a ring in a damaged file, make no
// alias.
void place_tensors(EngineData& engine, const TensorTable& table, const Aliases& aliases) {
  for (const auto& layer : engine.layers) {
    for (const auto* side : {&layer.inputs, &layer.outputs}) {
      for (const TensorUse& use : *side) {
        Tensor& tensor = engine.tensors[static_cast<size_t>(use.tensor)];
        const auto base = use.inside.empty() ? std::nullopt : table.find(aliases.resolve(use.inside));
        if (base && *base != use.tensor) tensor.alias_of = base;
        // An offset inside something unknown places nothing.
        tensor.offset = use.inside.empty() || tensor.alias_of ? use.offset : std::nullopt;
      }
    }
  }
  for (auto& tensor : engine.tensors) {
    size_t steps = 0;
    while (tensor.alias_of && steps++ < engine.tensors.size()) {
      const Tensor& base = engine.tensors[static_cast<size_t>(*tensor.alias_of)];
      if (!base.alias_of) break;
      tensor.offset =
          tensor.offset && base.offset ? std::optional(*tensor.offset + *base.offset) : std::nullopt;
      tensor.alias_of = base.alias_of;
    }
    if (steps > engine.tensors.size()) tensor.alias_of = {};
  }
}

// Memory lives as long as anything in it.
void extend_lives(EngineData& engine) {
  for (const auto& tensor : engine.tensors) {
    if (!tensor.alias_of) continue;
    Tensor& base = engine.tensors[static_cast<size_t>(*tensor.alias_of)];
    base.first = std::min(base.first, tensor.first);
    base.last = std::max(base.last, tensor.last);
  }
}

void connect(EngineData& engine) {
  const int last = static_cast<int>(engine.layers.size()) - 1;
  for (size_t t = 0; t < engine.tensors.size(); ++t) {
    Tensor& tensor = engine.tensors[t];
    const auto edge = [&](std::optional<int> from, std::optional<int> to) {
      engine.edges.push_back({from, to, static_cast<int>(t)});
    };
    for (const int reader : tensor.consumers) {
      // Writers before the reader and after the reader before it: those whose values it sees first.
      const auto end = std::lower_bound(tensor.producers.begin(), tensor.producers.end(), reader);
      if (end == tensor.producers.begin()) {
        edge({}, reader);
        continue;
      }
      const auto previous =
          std::lower_bound(tensor.consumers.begin(), tensor.consumers.end(), *(end - 1) + 1);
      int after = -1;
      if (previous != tensor.consumers.begin()) after = *(previous - 1);
      for (auto writer = tensor.producers.begin(); writer != end; ++writer) {
        if (*writer >= after || writer + 1 == end) edge(*writer, reader);
      }
    }
    if (tensor.role == "output" && !tensor.producers.empty()) edge(tensor.producers.back(), {});
    tensor.first = tensor.producers.empty() || tensor.role == "input" ? 0 : tensor.producers.front();
    tensor.last = tensor.role == "output"
                      ? last
                      : std::max(tensor.consumers.empty() ? tensor.first : tensor.consumers.back(),
                                 tensor.producers.empty() ? 0 : tensor.producers.back());
  }
}

void resolve_bindings(EngineData& engine, const TensorTable& table) {
  for (auto& binding : engine.bindings) {
    binding.tensor = table.find(binding.name);
    if (!binding.tensor) continue;
    Tensor& tensor = engine.tensors[static_cast<size_t>(*binding.tensor)];
    if (binding.io == "unknown") binding.io = tensor.producers.empty() ? "input" : "output";
    tensor.role = binding.io == "output" ? "output" : "input";
    if (binding.shape.empty()) binding.shape = tensor.shape;
    if (binding.type.empty()) binding.type = tensor.type;
    if (binding.format.empty()) binding.format = tensor.format;
    if (!binding.bytes) binding.bytes = tensor_bytes(binding.shape, binding.type, binding.format);
  }
}

// Without bindings in the file: what nobody writes comes in, what nobody reads goes out.
void guess_roles(EngineData& engine, const std::unordered_map<std::string, bool>& constants) {
  for (auto& tensor : engine.tensors) {
    if (tensor.role != "activation") continue;
    if (!tensor.producers.empty()) {
      if (engine.bindings.empty() && tensor.consumers.empty()) tensor.role = "output";
      continue;
    }
    tensor.role = constants.contains(tensor.name) || !engine.bindings.empty() ? "weights" : "input";
  }
}

}  // namespace

void build_graph(EngineData& engine) {
  std::unordered_map<std::string, bool> constants;
  const Aliases aliases = fold_layers(engine, constants);
  TensorTable table(engine);
  for (size_t i = 0; i < engine.layers.size(); ++i) {
    Layer& layer = engine.layers[i];
    layer.index = static_cast<int>(i);
    const auto take = [&](TensorUse& use, std::vector<int> Tensor::*side) {
      TensorUse resolved = use;
      resolved.name = aliases.resolve(use.name);
      use.tensor = table.index_of(resolved);
      auto& layers = engine.tensors[static_cast<size_t>(use.tensor)].*side;
      if (layers.empty() || layers.back() != layer.index) layers.push_back(layer.index);
    };
    for (auto& use : layer.inputs) take(use, &Tensor::consumers);
    for (auto& use : layer.outputs) take(use, &Tensor::producers);
  }
  place_tensors(engine, table, aliases);
  resolve_bindings(engine, table);
  guess_roles(engine, constants);
  for (auto& layer : engine.layers) {
    for (auto& use : layer.inputs)
      use.is_weights = engine.tensors[static_cast<size_t>(use.tensor)].role == "weights";
    name_precisions(layer);
  }
  connect(engine);
  extend_lives(engine);
}

void measure_memory(EngineData& engine) {
  Memory& memory = engine.memory;
  const size_t count = engine.layers.size();
  std::vector<int64_t> change(count + 1, 0);
  bool unknown = false;
  for (const auto& tensor : engine.tensors) {
    if (tensor.role == "weights" || tensor.alias_of) continue;
    unknown = unknown || !tensor.bytes;
    change[static_cast<size_t>(tensor.first)] += tensor.bytes.value_or(0);
    change[static_cast<size_t>(tensor.last) + 1] -= tensor.bytes.value_or(0);
  }
  int64_t alive = 0;
  for (size_t i = 0; i < count; ++i) {
    alive += change[i];
    memory.steps.push_back(alive);
    if (!memory.peak_layer || alive > memory.peak_bytes) {
      memory.peak_bytes = alive;
      memory.peak_layer = static_cast<int>(i);
    }
  }
  for (size_t t = 0; memory.peak_layer && t < engine.tensors.size(); ++t) {
    const auto& tensor = engine.tensors[t];
    if (tensor.role != "weights" && !tensor.alias_of && tensor.first <= *memory.peak_layer &&
        tensor.last >= *memory.peak_layer)
      memory.peak_tensors.push_back(static_cast<int>(t));
  }
  std::stable_sort(memory.peak_tensors.begin(), memory.peak_tensors.end(), [&](int a, int b) {
    return engine.tensors[static_cast<size_t>(a)].bytes.value_or(0) >
           engine.tensors[static_cast<size_t>(b)].bytes.value_or(0);
  });
  // Constants that several layers read count once; what only the layers' attributes tell has no name to
  // compare.
  for (const auto& layer : engine.layers) {
    int64_t named = 0;
    for (const auto& input : layer.inputs) named += input.is_weights ? input.bytes.value_or(0) : 0;
    memory.weights_bytes += std::max<int64_t>(0, layer.weights_bytes - named);
  }
  for (const auto& tensor : engine.tensors)
    memory.weights_bytes += tensor.role == "weights" ? tensor.bytes.value_or(0) : 0;
  const bool placed = memory.arena_bytes.has_value();
  memory.note = fmt::format(
      "Bytes of tensors between their first and last use, in execution order, inputs and outputs of the "
      "network "
      "included; {}; no scratch memory.",
      placed ? "those that lie in another's memory count once" : "what shares memory is not known");
  if (placed)
    memory.note += fmt::format(" The engine allocates {} for activations, inputs and outputs apart.",
                               binary_text(static_cast<double>(*memory.arena_bytes)));
  if (unknown) memory.note += " Tensors of unknown size count as 0.";
}

}  // namespace lathe::explorer
