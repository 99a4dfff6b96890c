// SPDX-License-Identifier: Apache-2.0
#include "onnx/quantization_plan.h"

#include <algorithm>

#include "base/name_pattern.h"

namespace lathe::onnx {
namespace {

constexpr int64_t kFirstOpset = 13;  // DequantizeLinear with an axis

class QuantizationPlanner {
 public:
  QuantizationPlanner(const ModelProto& model, const QuantizationScope& scope)
      : graph_(model.graph),
        scope_(scope),
        types_(scope.op_types.empty() ? quantizable_op_types() : scope.op_types) {
    std::map<std::string, int, std::less<>> unnamed;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeProto& node = graph_.nodes[i];
      names_.push_back(node_name(node, unnamed));
      for (const std::string_view output : node.outputs) producer_[output] = i;
    }
    constants_ = constant_tensors(graph_);
  }

  QuantizationPlan run_weight_only() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (wants(i)) plan_weight_only(i);
    if (plan_.weight_only.empty()) throw_input_error("nothing of the model can be quantised" + reasons());
    return std::move(plan_);
  }

  QuantizationPlan run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (wants(i)) plan_node(i);
    if (plan_.readers.empty()) throw_input_error("nothing of the model can be quantised" + reasons());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) plan_function(i);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) plan_gate(i);
    share_grids();
    return std::move(plan_);
  }

 private:
  const NodeProto& node(size_t i) const { return graph_.nodes[i]; }

  bool wants(size_t i) const {
    const NodeProto& n = node(i);
    return is_onnx_domain(n.domain) && types_.contains(n.op_type) && !matches_any(scope_.exclude, names_[i]);
  }

  void leave(size_t i, std::string reason, std::string tensor = {}) {
    plan_.left.push_back({names_[i], std::string(node(i).op_type), std::move(reason), std::move(tensor)});
  }
  std::string reasons() const {
    std::string text;
    for (const auto& left : plan_.left)
      text += "\n  " + left.node + " (" + left.op_type + "): " + left.reason;
    return text.empty() ? ": it has no operator of the types" : ":" + text;
  }

  const TensorProto* constant(std::string_view name) const {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : found->second;
  }

  void plan_node(size_t i) {
    const std::string_view type = node(i).op_type;
    if (quantizable_functions().contains(type)) return;  // when the others are known
    if (const std::string tensor = other_tensor(i); !tensor.empty())
      return leave(i, scope_.other_tensors, tensor);
    if (type == "Conv" || type == "Gemm" || type == "MatMul")
      plan_product(i);
    else if (type == "Add")
      plan_sum(i);
    else
      for (size_t k = 0; k < data_inputs(i); ++k) read(i, k);
  }

  // How many of its inputs, from the first on, are read quantised.
  size_t data_inputs(size_t i) const {
    const NodeProto& n = node(i);
    const size_t most = n.op_type == "Concat" ? n.inputs.size() : n.op_type == "Add" ? 2 : 1;
    return std::min(most, n.inputs.size());
  }

  // The first of them that cannot be; empty: there is none.
  std::string other_tensor(size_t i) const {
    for (size_t k = 0; scope_.tensors && k < data_inputs(i); ++k)
      if (const std::string name(node(i).inputs[k]); !constant(name) && !scope_.tensors->contains(name))
        return name;
    return {};
  }

  // Node i reads its input k quantised.
  void read(size_t i, size_t k) {
    const std::string name(node(i).inputs[k]);
    if (name.empty() || constant(name)) return;
    plan_.activations.try_emplace(name, name);
    plan_.readers.emplace(i, k);
  }

  // Its weights; null, with the reason noted, where they cannot be quantised. `halves`: those of 16 bits can,
  // too.
  const TensorProto* weights_of(size_t i, bool halves = false) {
    const NodeProto& n = node(i);
    const TensorProto* w = n.inputs.size() < 2 ? nullptr : constant(n.inputs[1]);
    std::string reason;
    if (n.inputs.size() < 2)
      reason = "it has no weights";
    else if (constant(n.inputs[0]))
      reason = "its first operand is constant";
    else if (!w)
      reason = "its weights are computed";
    else if (halves && w->data_type != kFloatType && w->data_type != kHalfType &&
             w->data_type != kBFloat16Type)
      reason = "its weights are not float32, float16 or bfloat16";
    else if (!halves && w->data_type != kFloatType)
      reason = "its weights are not float32";
    else if (n.op_type == "Conv" ? w->dims.empty() : w->dims.size() != 2)
      reason = "its weights are no matrix";
    if (reason.empty()) return w;
    leave(i, std::move(reason));
    return nullptr;
  }

  bool flag(size_t i, std::string_view name) const { return has_flag(node(i), name); }
  bool is_one(size_t i, std::string_view name) const {
    const AttributeProto* a = find_attribute(node(i), name);
    return !a || a->f == 1;
  }

  void plan_weight_only(size_t i) {
    const NodeProto& n = node(i);
    const TensorProto* w = weights_of(i, true);
    if (!w) return;
    if (n.op_type == "Gemm" && (flag(i, "transA") || !is_one(i, "alpha") || !is_one(i, "beta")))
      return leave(i, "it has transA, alpha or beta");
    const bool transposed = n.op_type == "Gemm" && flag(i, "transB");
    const int64_t k = w->dims[transposed ? 1 : 0], columns = w->dims[transposed ? 0 : 1];
    if (k < 1 || columns < 1) return leave(i, "its weights are empty");
    plan_.weight_only.push_back({i, std::string(n.inputs[1]), transposed, k, columns});
  }

  void plan_product(size_t i) {
    const NodeProto& n = node(i);
    const TensorProto* w = weights_of(i);
    if (!w) return;
    int64_t axis = 0;
    if (n.op_type == "MatMul") axis = 1;
    if (n.op_type == "Gemm") axis = flag(i, "transB") ? 0 : 1;
    read(i, 0);
    plan_.weights.push_back({i, 1, std::string(n.inputs[1]), axis});
    if (n.inputs.size() > 2 && !n.inputs[2].empty()) plan_bias(i, w->dims[static_cast<size_t>(axis)]);
  }

  // A vector of one number per channel becomes integers of the sums' scale, as engines add it.
  void plan_bias(size_t i, int64_t channels) {
    const NodeProto& n = node(i);
    const TensorProto* bias = constant(n.inputs[2]);
    if (!bias || bias->data_type != kFloatType || bias->dims != std::vector<int64_t>{channels} ||
        !is_one(i, "alpha") || !is_one(i, "beta"))
      return;
    plan_.biases.push_back(
        {{i, 2, std::string(n.inputs[2]), 0}, std::string(n.inputs[0]), std::string(n.inputs[1])});
  }

  // Residual sums, which engines compute behind a convolution.
  void plan_sum(size_t i) {
    const NodeProto& n = node(i);
    if (n.inputs.size() != 2 || constant(n.inputs[0]) || constant(n.inputs[1]))
      return leave(i, "an operand is constant");
    if (!is_behind_convolution(n.inputs[0]) && !is_behind_convolution(n.inputs[1]))
      return leave(i, "no operand comes from a quantised convolution");
    read(i, 0);
    read(i, 1);
  }

  void plan_function(size_t i) {
    const NodeProto& n = node(i);
    if (!wants(i) || !quantizable_functions().contains(n.op_type) || n.inputs.empty() || n.outputs.empty())
      return;
    const std::string_view x = n.inputs[0], y = n.outputs[0];
    const auto source = producer_.find(x);
    if (source == producer_.end() || node(source->second).op_type != "Conv" || !reads(source->second)) return;
    const bool rounds = plan_.activations.contains(y) ||
                        std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const NodeProto& product) {
                          return is_product(product, x, y) && plan_.activations.contains(product.outputs[0]);
                        });
    if (rounds && other_tensor(i).empty()) read(i, 0);
  }
  bool reads(size_t i) const { return plan_.readers.contains({i, 0}); }
  static bool is_product(const NodeProto& n, std::string_view x, std::string_view y) {
    return n.op_type == "Mul" && n.inputs.size() == 2 && n.outputs.size() == 1 &&
           ((n.inputs[0] == x && n.inputs[1] == y) || (n.inputs[0] == y && n.inputs[1] == x));
  }

  // A product with what others read quantised, as in squeeze-and-excitation: left as it is, it would need the
  // tensor a second time, as floats.
  void plan_gate(size_t i) {
    const NodeProto& n = node(i);
    if (!is_onnx_domain(n.domain) || n.op_type != "Mul" || matches_any(scope_.exclude, names_[i])) return;
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (plan_.activations.contains(n.inputs[k])) plan_.readers.emplace(i, k);
  }

  bool is_behind_convolution(std::string_view name) const {
    for (int steps = 0; steps < 3; ++steps) {
      const auto found = producer_.find(name);
      if (found == producer_.end()) return false;
      const NodeProto& n = node(found->second);
      if (n.op_type == "Conv") return wants(found->second);
      const bool passes = n.op_type == "Relu" || n.op_type == "Clip" || n.op_type == "BatchNormalization";
      if (!passes || n.inputs.empty()) return false;
      name = n.inputs[0];
    }
    return false;
  }

  // What moves elements gives the grid that it got; all parts of a Concat have that of the whole.
  void share_grids() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeProto& n = node(i);
      if (n.outputs.empty() || n.inputs.empty()) continue;
      const auto result = plan_.activations.find(n.outputs[0]);
      const auto source = plan_.activations.find(n.inputs[0]);
      if (result == plan_.activations.end()) continue;
      if (moves(n.op_type) && source != plan_.activations.end()) result->second = source->second;
    }
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const NodeProto& n = node(i);
      if (n.op_type != "Concat" || n.outputs.empty()) continue;
      const auto result = plan_.activations.find(n.outputs[0]);
      if (result == plan_.activations.end()) continue;
      for (const std::string_view part : n.inputs)
        if (const auto found = plan_.activations.find(part); found != plan_.activations.end())
          found->second = result->second;
    }
  }
  static bool moves(std::string_view type) {
    static const std::set<std::string_view> types = {"MaxPool", "Reshape",   "Flatten",
                                                     "Squeeze", "Unsqueeze", "Transpose"};
    return types.contains(type);
  }

  static constexpr int32_t kFloatType = 1, kHalfType = 10, kBFloat16Type = 16;

  const GraphProto& graph_;
  const QuantizationScope& scope_;
  const std::set<std::string, std::less<>>& types_;
  std::vector<std::string> names_;
  std::map<std::string_view, size_t> producer_;
  ConstantTensors constants_;
  QuantizationPlan plan_;
};

}  // namespace

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_pattern(pattern, name); });
}

int64_t opset_of(const ModelProto& model) {
  for (const OpsetId& opset : model.opsets)
    if (is_onnx_domain(opset.domain)) return opset.version;
  return 1;
}

void check_is_float(const ModelProto& model) {
  for (const NodeProto& node : model.graph.nodes)
    if (node.op_type.find("QuantizeLinear") != std::string_view::npos ||
        node.op_type.find("QLinear") != std::string_view::npos || node.op_type == "DequantizeLinear" ||
        node.op_type == "MatMulNBits" || node.op_type == "MatMulInteger" || node.op_type == "ConvInteger")
      throw_input_error("the model is quantised already: it has a " + std::string(node.op_type) +
                        " node; take the float model");
}

namespace {

void check_opset(const ModelProto& model) {
  const int64_t opset = opset_of(model);
  if (opset < kFirstOpset)
    throw_input_error(
        "the model has opset " + std::to_string(opset) +
        "; a scale per channel needs 13: convert it with onnx.version_converter.convert_version(model, 13)");
}

}  // namespace

ConstantTensors constant_tensors(const GraphProto& graph) {
  ConstantTensors constants;
  for (const TensorProto& tensor : graph.initializers) constants[tensor.name] = &tensor;
  for (const NodeProto& node : graph.nodes) {
    if (!node.domain.empty() || node.outputs.empty()) continue;
    const AttributeProto* value = node.op_type == "Constant" ? find_attribute(node, "value") : nullptr;
    if (value && value->t) constants[node.outputs[0]] = value->t.get();
    if (node.op_type != "Identity" || node.inputs.empty()) continue;
    if (const auto found = constants.find(node.inputs[0]); found != constants.end())
      constants[node.outputs[0]] = found->second;
  }
  return constants;
}

const std::set<std::string, std::less<>>& quantizable_op_types() {
  static const std::set<std::string, std::less<>> types = {
      "Add",         "AveragePool", "Concat", "Conv",      "Elu",     "Gemm",    "GlobalAveragePool",
      "HardSigmoid", "HardSwish",   "MatMul", "LeakyRelu", "MaxPool", "Sigmoid", "Swish"};
  return types;
}

const std::set<std::string, std::less<>>& quantizable_functions() {
  static const std::set<std::string, std::less<>> types = {"Elu",       "HardSigmoid", "HardSwish",
                                                           "LeakyRelu", "Sigmoid",     "Swish"};
  return types;
}

namespace {

using OpTypes = std::set<std::string, std::less<>>;

void check_types(const OpTypes& wanted, const OpTypes& possible) {
  for (const std::string& type : wanted)
    if (!possible.contains(type)) {
      std::string known;
      for (const std::string& name : possible) known += (known.empty() ? "" : ", ") + name;
      throw_input_error("operators of type '" + type + "' are not quantised; those that are: " + known);
    }
}

}  // namespace

bool has_flag(const NodeProto& node, std::string_view name) {
  const AttributeProto* a = find_attribute(node, name);
  return a && a->i != 0;
}

QuantizationPlan plan_quantization(const ModelProto& model, const QuantizationScope& scope) {
  check_is_float(model);
  check_opset(model);
  check_types(scope.op_types, quantizable_op_types());
  return QuantizationPlanner(model, scope).run();
}

std::vector<SmoothableTensor> smoothable_tensors(const ModelProto& model, const QuantizationPlan& plan) {
  std::map<size_t, const ConstantUse*> products;
  for (const ConstantUse& use : plan.weights) {
    const NodeProto& node = model.graph.nodes[use.node];
    if (node.op_type != "Conv" && !has_flag(node, "transA")) products[use.node] = &use;
  }
  std::map<std::string, SmoothableTensor> found;
  std::set<std::string> others;
  for (const auto& [node, input] : plan.readers) {
    const std::string name(model.graph.nodes[node].inputs[input]);
    if (!products.contains(node) || plan.activations.at(name) != name)
      others.insert(name);
    else
      found[name].weights.push_back(*products.at(node));
  }
  std::vector<SmoothableTensor> result;
  for (auto& [name, tensor] : found)
    if (!others.contains(name)) result.push_back({name, std::move(tensor.weights)});
  return result;
}

QuantizationPlan plan_weight_only(const ModelProto& model, const QuantizationScope& scope) {
  static const OpTypes products = {"Gemm", "MatMul"};
  check_is_float(model);
  check_types(scope.op_types, products);
  QuantizationScope own = scope;
  if (own.op_types.empty()) own.op_types = products;
  return QuantizationPlanner(model, own).run_weight_only();
}

}  // namespace lathe::onnx
