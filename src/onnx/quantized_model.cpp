// SPDX-License-Identifier: Apache-2.0
//
// The model's message is copied field by field. Of the graph, nodes get other names of inputs, new nodes
// stand before them, and initializers that nobody reads any more are left out; those in files beside the
// model are taken in, because the new file may lie elsewhere.
#include "onnx/quantized_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "onnx/import_node.h"
#include "onnx/message_copy.h"
#include "onnx/raised_opset.h"

namespace lathe::onnx {
namespace {

// QuantizeLinear and DequantizeLinear of floats of 8 bits, and the types themselves.
constexpr int64_t kSmallFloatOpset = 19, kSmallFloatIr = 9;

class QuantizedWriter {
 public:
  QuantizedWriter(std::span<const std::byte> bytes, const ModelProto& model, TensorSource& tensors,
                  const QuantizationPlan& plan, const std::map<std::string, Quantization, std::less<>>& grids,
                  const Smoothing& smoothing, const BiasShifts& shifts, DType weights)
      : bytes_(bytes),
        model_(model),
        tensors_(tensors),
        plan_(plan),
        grids_(grids),
        smoothing_(smoothing),
        shifts_(shifts),
        weight_type_(weights),
        names_(model.graph) {
    constants_ = constant_tensors(model.graph);
    const int64_t opset = opset_of(model);
    raised_ = {opset, has_small_floats() ? std::max(opset, kSmallFloatOpset) : opset};
  }

  QuantizedModel run() {
    for (const auto& [node, input] : plan_.readers) {
      const std::string name(model_.graph.nodes[node].inputs[input]);
      const auto [numbers, is_new] = numbers_.try_emplace(name);
      if (is_new) numbers->second = unique(name + "_dequantized");
      renamed_[{node, input}] = numbers->second;
    }
    for (const auto& use : plan_.weights) quantize_weights(use);
    for (const auto& use : plan_.biases) quantize_bias(use);
    write_model();
    return finish();
  }

  // Instead of quantised activations: weights of a few bits in the products themselves.
  QuantizedModel run_weight_only(const WeightRounding& rounding, const InputSumsByTensor& inputs) {
    inputs_ = &inputs;
    for (const auto& use : plan_.weight_only) replace_product(use, rounding);
    write_model();
    result_.weights = static_cast<int64_t>(plan_.weight_only.size());
    return std::move(result_);
  }

 private:
  QuantizedModel finish() {
    result_.activations = static_cast<int64_t>(plan_.activations.size());
    result_.weights = static_cast<int64_t>(plan_.weights.size());
    return std::move(result_);
  }

  std::string unique(const std::string& wanted) { return names_.unique(wanted); }
  bool has_small_floats() const { return weight_type_ == DType::Float8E4M3FN; }

  // --- constants

  void add_constant(const std::string& name, const Tensor& tensor) {
    put_bytes(initializers_, kGraphInitializer, tensor_bytes(name, tensor));
  }

  // Integers (or floats of 8 bits) and their scales as constants, and a node in front of the graph that makes
  // numbers of them.
  std::string add_dequantized(const std::string& of, const Tensor& integers, const Tensor& scales,
                              int64_t axis) {
    const std::string stored = unique(of + "_quantized"), scale = unique(of + "_scale"),
                      name = unique(of + "_dequantized");
    std::vector<std::string> inputs = {stored, scale};
    add_constant(stored, integers);
    add_constant(scale, scales);
    if (integers.dtype() != DType::Int32) {
      const std::string zero = unique(of + "_zero_point");
      add_constant(zero, Tensor::from_doubles(integers.dtype(), scales.extents(),
                                              std::vector<double>(static_cast<size_t>(scales.size()), 0)));
      inputs.push_back(zero);
    }
    put_bytes(first_nodes_, kGraphNode,
              node_bytes("DequantizeLinear", unique(of + "_DequantizeLinear"), inputs, name,
                         axis < 0 ? IntAttributes() : IntAttributes{{"axis", axis}}));
    result_.weight_bytes += static_cast<int64_t>(integers.bytes().size() + scales.bytes().size());
    return name;
  }

  void quantize_weights(const ConstantUse& use) {
    const auto smooth = smoothing_.find(model_.graph.nodes[use.node].inputs[0]);
    const auto key = std::tuple(use.name, use.axis, smooth == smoothing_.end() ? "" : smooth->first);
    auto found = weights_.find(key);
    if (found == weights_.end()) {
      Tensor weights = tensors_.load(*constants_.find(use.name)->second);
      if (smooth != smoothing_.end()) weights = multiplied(weights, use.axis, smooth->second);
      result_.weight_bytes_before += static_cast<int64_t>(weights.bytes().size());
      Quantization grid = weight_grid(weights, use.name, use.axis, weight_type_);
      const Tensor scales = Tensor::from<float>({static_cast<int64_t>(grid.scales.size())}, grid.scales);
      std::string name = add_dequantized(use.name, quantize(weights, grid), scales, use.axis);
      found = weights_.emplace(key, Weights{std::move(name), std::move(grid)}).first;
    }
    renamed_[{use.node, use.input}] = found->second.name;
  }

  // Of a matrix whose columns lie along `axis`, each index of the other one by its factor.
  static Tensor multiplied(const Tensor& weights, int64_t axis, const std::vector<float>& factors) {
    const auto elements = weights.data<float>();
    std::vector<float> result(elements.begin(), elements.end());
    const size_t inner = axis == 0 ? 1 : static_cast<size_t>(weights.extents()[1]);
    for (size_t i = 0; i < result.size(); ++i) result[i] *= factors[i / inner % factors.size()];
    return Tensor::from<float>(weights.extents(), result);
  }

  // A bias that stays float takes up its shift alone.
  void shift_bias(const BiasUse& use) {
    const auto shift = shifts_.find(use.bias.node);
    if (shift == shifts_.end()) return;
    const Tensor bias = tensors_.load(*constants_.find(use.bias.name)->second);
    std::vector<double> values = bias.to_doubles();
    std::transform(values.begin(), values.end(), shift->second.begin(), values.begin(), std::plus<>());
    const std::string name = unique(use.bias.name + "_corrected");
    add_constant(name, Tensor::from_doubles(DType::Float32, bias.extents(), values));
    renamed_[{use.bias.node, use.bias.input}] = name;
  }

  void quantize_bias(const BiasUse& use) {
    if (has_small_floats()) return shift_bias(use);
    const auto weights = std::find_if(weights_.begin(), weights_.end(), [&](const auto& entry) {
      return entry.second.name == renamed_.at({use.bias.node, 1});
    });
    const float x = grids_.at(use.x).scale();
    const Tensor bias = tensors_.load(*constants_.find(use.bias.name)->second);
    std::vector<double> integers;
    std::vector<float> scales;
    std::vector<double> values = bias.to_doubles();
    if (const auto shift = shifts_.find(use.bias.node); shift != shifts_.end())
      std::transform(values.begin(), values.end(), shift->second.begin(), values.begin(), std::plus<>());
    for (const double value : values) {
      const float scale = x * weights->second.grid.scale(integers.size());
      const double steps = std::nearbyint(value / static_cast<double>(scale));
      constexpr double kMost = std::numeric_limits<int32_t>::max();
      // Far beyond what the sums are: left as it is.
      if (!(scale >= std::numeric_limits<float>::min()) || !(std::abs(steps) <= kMost)) return;
      scales.push_back(scale);
      integers.push_back(steps);
    }
    const Tensor stored = Tensor::from_doubles(DType::Int32, bias.extents(), integers);
    renamed_[{use.bias.node, use.bias.input}] =
        add_dequantized(use.bias.name, stored, Tensor::from<float>(bias.extents(), scales), 0);
  }

  // --- products with weights of a few bits

  void replace_product(const WeightOnlyUse& use, const WeightRounding& rounding) {
    const NodeProto& node = model_.graph.nodes[use.node];
    const std::string key = use.weights + (use.transposed ? "/t" : "");
    auto found = few_bits_.find(key);
    if (found == few_bits_.end()) found = few_bits_.emplace(key, add_few_bits(use, rounding)).first;
    const std::string output(node.outputs[0]), name(node.name);
    const bool adds = node.inputs.size() > 2 && !node.inputs[2].empty();
    const std::string product = adds ? unique(output + "_product") : output;
    const auto [block, bits] = std::pair(rounding.block, rounding.bits);
    std::string& nodes = replaced_[use.node];
    put_bytes(nodes, kGraphNode,
              node_bytes("MatMulNBits", name,
                         {std::string(node.inputs[0]), found->second.first, found->second.second}, product,
                         {{"K", use.k}, {"N", use.columns}, {"bits", bits}, {"block_size", block}},
                         kMicrosoftDomain));
    if (adds)
      put_bytes(nodes, kGraphNode,
                node_bytes("Add", unique(name + "_Add"), {product, std::string(node.inputs[2])}, output));
    renamed_[{use.node, 1}] = found->second.first;  // nobody reads the float weights there
  }

  // Null where the input was not measured. Products that read the same tensor share it.
  const ErrorSpread* spread_of(std::string_view input, int64_t k) {
    const auto sums = inputs_->find(input);
    if (sums == inputs_->end() || sums->second.k != k) return nullptr;
    auto found = spreads_.find(input);
    if (found == spreads_.end()) {
      ThreadPool pool;
      spreads_.clear();  // they are large, and the products of one input stand together
      found = spreads_.emplace(std::string(input), ErrorSpread(sums->second, pool)).first;
    }
    return &found->second;
  }

  static Tensor in_type(const Tensor& tensor, DType type) {
    return tensor.dtype() == type ? tensor
                                  : Tensor::from_doubles(type, tensor.extents(), tensor.to_doubles());
  }

  // Names of the integers and of their scales.
  std::pair<std::string, std::string> add_few_bits(const WeightOnlyUse& use, const WeightRounding& rounding) {
    const Tensor weights = tensors_.load(*constants_.find(use.weights)->second),
                 floats = in_type(weights, DType::Float32);
    RoundedWeights rounded =
        round_weights(use.weights, floats.data<float>(), {use.k, use.columns, use.transposed}, rounding,
                      spread_of(model_.graph.nodes[use.node].inputs[0], use.k));
    rounded.scales = in_type(rounded.scales, weights.dtype());  // MatMulNBits has one type for its floats
    const std::pair names(unique(use.weights + "_quantized"), unique(use.weights + "_scale"));
    add_constant(names.first, rounded.integers);
    add_constant(names.second, rounded.scales);
    result_.weight_bytes_before += static_cast<int64_t>(weights.bytes().size());
    result_.weight_bytes +=
        static_cast<int64_t>(rounded.integers.bytes().size() + rounded.scales.bytes().size());
    return names;
  }

  // --- activations

  // The two nodes behind `name`.
  void add_rounding(const std::string& name, std::string& nodes) {
    const auto numbers = numbers_.find(name);
    if (numbers == numbers_.end()) return;
    const Quantization& grid = grids_.at(name);
    const std::string scale = unique(name + "_scale"), zero = unique(name + "_zero_point"),
                      stored = unique(name + "_quantized");
    add_constant(scale, Tensor::from<float>({}, {grid.scale()}));
    add_constant(zero,
                 Tensor::from_doubles(grid.dtype, {}, std::vector<double>{static_cast<double>(grid.zero())}));
    put_bytes(nodes, kGraphNode,
              node_bytes("QuantizeLinear", unique(name + "_QuantizeLinear"),
                         {add_smoothed(name, nodes), scale, zero}, stored));
    put_bytes(nodes, kGraphNode,
              node_bytes("DequantizeLinear", unique(name + "_DequantizeLinear"), {stored, scale, zero},
                         numbers->second));
  }

  // The tensor divided by its factors, where it has some.
  std::string add_smoothed(const std::string& name, std::string& nodes) {
    const auto found = smoothing_.find(name);
    if (found == smoothing_.end()) return name;
    std::vector<float> inverse;
    for (const float factor : found->second) inverse.push_back(1 / factor);
    const std::string constant = unique(name + "_smoothing"), smoothed = unique(name + "_smoothed");
    add_constant(constant, Tensor::from<float>({static_cast<int64_t>(inverse.size())}, inverse));
    put_bytes(nodes, kGraphNode,
              node_bytes("Mul", unique(name + "_smoothing_Mul"), {name, constant}, smoothed));
    return smoothed;
  }

  // --- the message

  void write_model() {
    const WireLocation where{.field = "model", .file_begin = bytes_.data()};
    WireReader reader(bytes_, where);
    std::string& out = result_.bytes;
    put_int(out, kModelIrVersion,
            std::max({model_.ir_version, kFirstIr, has_small_floats() ? kSmallFloatIr : 0}));
    put_bytes(out, kModelProducer, "lathe quantize");
    size_t opset = 0;
    while (reader.next()) {
      if (reader.field() == kModelGraph) {
        const std::string graph = graph_bytes(reader.bytes());
        if (static_cast<int64_t>(graph.size()) > kMostBytes)
          throw_input_error("the quantised model would have more than 2 GiB in one file");
        put_bytes(out, kModelGraph, graph);
      } else if (reader.field() == kModelOpset) {
        const auto message = text_of(reader.bytes());
        const std::string_view domain = model_.opsets[opset++].domain;
        put_bytes(out, kModelOpset,
                  raised_.is_raised() && is_onnx_domain(domain) ? opset_bytes(domain, raised_.to) : message);
      } else if (reader.field() == kModelIrVersion || reader.field() == kModelProducer ||
                 reader.field() == kModelProducerVersion) {
        reader.skip();
      } else {
        copy_field(reader, out);
      }
    }
    if (!replaced_.empty() && !has_opset(kMicrosoftDomain))
      put_bytes(out, kModelOpset, opset_bytes(kMicrosoftDomain, 1));
  }

  bool has_opset(std::string_view domain) const {
    return std::any_of(model_.opsets.begin(), model_.opsets.end(),
                       [&](const OpsetId& opset) { return opset.domain == domain; });
  }

  std::string graph_bytes(std::span<const std::byte> bytes) {
    const WireLocation where{.field = "graph", .file_begin = bytes_.data()};
    WireReader reader(bytes, where);
    std::string nodes, rest;
    for (const ValueInfo& input : model_.graph.inputs) add_rounding(std::string(input.name), nodes);
    size_t node = 0, initializer = 0;
    while (reader.next()) {
      if (reader.field() == kGraphNode) {
        const auto message = reader.bytes();
        const NodeProto& proto = model_.graph.nodes[node];
        const bool unread = (proto.op_type == "Constant" || proto.op_type == "Identity") &&
                            proto.outputs.size() == 1 && !is_read(proto.outputs[0]);
        const auto replaced = replaced_.find(node);
        if (replaced != replaced_.end())
          nodes += replaced->second;
        else if (!unread)
          put_bytes(nodes, kGraphNode, renamed_node(node, message));
        for (const std::string_view output : model_.graph.nodes[node].outputs)
          if (plan_.activations.contains(output)) add_rounding(std::string(output), nodes);
        ++node;
      } else if (reader.field() == kGraphInitializer) {
        copy_initializer(model_.graph.initializers[initializer++], text_of(reader.bytes()), rest);
      } else {
        copy_field(reader, rest);
      }
    }
    return first_nodes_ + nodes + initializers_ + rest;
  }

  std::string renamed_node(size_t number, std::span<const std::byte> message) {
    const WireLocation where{
        .field = "node", .index = static_cast<int64_t>(number), .file_begin = bytes_.data()};
    WireReader reader(message, where);
    std::string out;
    const NodeProto& node = model_.graph.nodes[number];
    size_t input = 0, attribute = 0;
    while (reader.next()) {
      if (reader.field() != kNodeInput) {
        const bool dropped = reader.field() == kNodeAttribute &&
                             node.attributes[attribute++].name == "axes" && moves_axes(node, raised_);
        dropped ? reader.skip() : copy_field(reader, out);
        continue;
      }
      const std::string_view given = reader.string();
      const auto found = renamed_.find({number, input++});
      put_bytes(out, kNodeInput, found == renamed_.end() ? given : std::string_view(found->second));
    }
    finish_raised(node, raised_, names_, out, initializers_);
    return out;
  }

  void copy_initializer(const TensorProto& tensor, std::string_view message, std::string& out) {
    if (!is_read(tensor.name)) return;
    if (!tensor.external) return put_bytes(out, kGraphInitializer, message);
    const Tensor loaded = tensors_.load(tensor);
    put_bytes(out, kGraphInitializer, tensor_bytes(std::string(tensor.name), loaded));
  }

  // By the name that nodes of the new model use, in bodies, too.
  bool is_read(std::string_view name) {
    if (read_.empty()) note_reads(model_.graph, true);
    return read_.contains(name);
  }
  // From the last node to the first, so that what an Identity reads that nobody reads counts for nothing.
  void note_reads(const GraphProto& graph, bool is_main) {
    for (const ValueInfo& output : graph.outputs) read_.emplace(output.name);
    for (const ValueInfo& input : graph.inputs)
      if (is_main) read_.emplace(input.name);  // a constant with a name from outside
    for (const auto& [name, range_of] : plan_.activations) read_.emplace(name);
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      const NodeProto& node = graph.nodes[i];
      if (is_main && node.op_type == "Identity" && !node.outputs.empty() && !read_.contains(node.outputs[0]))
        continue;
      for (size_t k = 0; k < node.inputs.size(); ++k)
        if (!is_main || !renamed_.contains({i, k})) read_.emplace(node.inputs[k]);
      for (const AttributeProto& a : node.attributes)
        if (a.g) note_reads(*a.g, false);
    }
  }

  struct Weights {
    std::string name;  // of their numbers
    Quantization grid;
  };

  std::span<const std::byte> bytes_;
  const ModelProto& model_;
  TensorSource& tensors_;
  const QuantizationPlan& plan_;
  const std::map<std::string, Quantization, std::less<>>& grids_;
  const Smoothing& smoothing_;
  const BiasShifts& shifts_;
  const DType weight_type_;
  RaisedOpset raised_;
  ConstantTensors constants_;
  TakenNames names_;
  std::set<std::string, std::less<>> read_;
  std::map<std::string, std::string, std::less<>> numbers_;   // of a quantised tensor: what its readers read
  std::map<std::pair<size_t, size_t>, std::string> renamed_;  // inputs of nodes
  std::map<std::tuple<std::string, int64_t, std::string>, Weights> weights_;  // name, axis, smoothed input
  std::map<std::string, std::pair<std::string, std::string>> few_bits_;       // by the float weights
  const InputSumsByTensor* inputs_ = nullptr;
  std::map<std::string, ErrorSpread, std::less<>> spreads_;
  std::map<size_t, std::string> replaced_;  // nodes
  std::string first_nodes_, initializers_;
  QuantizedModel result_;
};

}  // namespace

Quantization weight_grid(const Tensor& weights, const std::string& name, int64_t weight_axis, DType dtype) {
  const Extents& e = weights.extents();
  const auto axis = static_cast<size_t>(weight_axis);
  int64_t inner = 1;
  for (size_t d = axis + 1; d < e.size(); ++d) inner *= e[d];
  std::vector<float> most(static_cast<size_t>(e[axis]), 0);
  const auto elements = weights.data<float>();
  for (size_t i = 0; i < elements.size(); ++i) {
    float& largest = most[i / static_cast<size_t>(inner) % most.size()];
    if (!std::isfinite(elements[i]))
      throw_input_error("the weights '" + name + "' have an element that is not a finite number");
    largest = std::max(largest, std::abs(elements[i]));
  }
  Quantization grid{.dtype = dtype, .scales = {}, .zeros = {}, .axis = weight_axis};
  const float top = grid.has_floats() ? kMostE4M3 : 127;
  for (const float largest : most) {
    // A channel of zeros has any scale; the smallest normal numbers would have none.
    grid.scales.push_back(largest > 1e-30f ? largest / top : 1);
    grid.zeros.push_back(0);
  }
  return grid;
}

void check_small_floats(const ModelProto& model) {
  const RaisedOpset raised{opset_of(model), kSmallFloatOpset};
  if (!raised.is_raised()) return;
  if (const std::string reason = why_not_raised(model, raised); !reason.empty())
    throw_input_error("the model has opset " + std::to_string(raised.from) + ", float8 needs " +
                      std::to_string(raised.to) + ", and " + reason +
                      ": convert it with onnx.version_converter.convert_version(model, " +
                      std::to_string(raised.to) + ")");
}

QuantizedModel write_quantized_model(std::span<const std::byte> bytes, const ModelProto& model,
                                     TensorSource& tensors, const QuantizationPlan& plan,
                                     const std::map<std::string, Quantization, std::less<>>& grids,
                                     const Smoothing& smoothing, const BiasShifts& shifts, DType weights) {
  return QuantizedWriter(bytes, model, tensors, plan, grids, smoothing, shifts, weights).run();
}

QuantizedModel write_weight_only_model(std::span<const std::byte> bytes, const ModelProto& model,
                                       TensorSource& tensors, const QuantizationPlan& plan,
                                       const WeightRounding& rounding, const InputSumsByTensor& inputs) {
  return QuantizedWriter(bytes, model, tensors, plan, {}, {}, {}, DType::Int8)
      .run_weight_only(rounding, inputs);
}

}  // namespace lathe::onnx
