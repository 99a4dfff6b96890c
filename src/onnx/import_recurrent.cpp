// SPDX-License-Identifier: Apache-2.0
//
// RNN, GRU and LSTM: one core operator per direction, on time-major tensors. `layout` 1 (batch first) becomes
// transposes.
#include <algorithm>
#include <map>

#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

enum Input : size_t { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes };

struct ActivationInfo {
  Activation kind;
  bool has_alpha = false, has_beta = false;
  float alpha = 0, beta = 0;  // where the model says nothing
};

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// Names are compared without case: exporters differ.
ActivationInfo find_activation(const NodeImport& node, const std::string& name) {
  static const std::map<std::string, ActivationInfo, std::less<>> table = {
      {"relu", {Activation::Relu}},
      {"tanh", {Activation::Tanh}},
      {"sigmoid", {Activation::Sigmoid}},
      {"affine", {Activation::Affine, true, true, 1, 0}},
      {"leakyrelu", {Activation::LeakyRelu, true, false, 0.01f, 0}},
      {"thresholdedrelu", {Activation::ThresholdedRelu, true, false, 1, 0}},
      {"scaledtanh", {Activation::ScaledTanh, true, true, 1, 1}},
      {"hardsigmoid", {Activation::HardSigmoid, true, true, 0.2f, 0.5f}},
      {"elu", {Activation::Elu, true, false, 1, 0}},
      {"softsign", {Activation::Softsign}},
      {"softplus", {Activation::Softplus}}};
  const auto found = table.find(lower_case(name));
  if (found == table.end()) node.fail("its activation '" + name + "' is not known");
  return found->second;
}

// The activations of one direction, with parameters where one of them has any.
struct Activations {
  std::vector<Activation> kinds;
  std::vector<float> alpha, beta;
};

// `activation_alpha` and `activation_beta` hold values for those activations that have such a parameter, in
// their order, all directions one after the other.
std::vector<Activations> read_activations(const NodeImport& node, size_t directions,
                                          std::vector<std::string> defaults) {
  std::vector<std::string> names = node.texts("activations");
  const size_t each = defaults.size();
  if (names.empty())
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  // ONNX's default for RNN has two names, whatever the number of directions, and ONNX Runtime spells it out.
  if (each == 1 && directions == 1 && names.size() == 2 && names[0] == names[1]) names.pop_back();
  if (names.size() != each * directions) {
    node.fail("it has " + std::to_string(names.size()) + " activations, expected " +
              std::to_string(each * directions));
  }
  const std::vector<float> alphas = node.reals("activation_alpha").value_or(std::vector<float>());
  const std::vector<float> betas = node.reals("activation_beta").value_or(std::vector<float>());
  size_t next_alpha = 0, next_beta = 0;
  std::vector<Activations> all(directions);
  for (size_t i = 0; i < names.size(); ++i) {
    Activations& a = all[i / each];
    const ActivationInfo info = find_activation(node, names[i]);
    const auto parameter = [](bool has, const std::vector<float>& values, size_t& next, float otherwise) {
      return has && next < values.size() ? values[next++] : otherwise;
    };
    a.kinds.push_back(info.kind);
    a.alpha.push_back(parameter(info.has_alpha, alphas, next_alpha, info.alpha));
    a.beta.push_back(parameter(info.has_beta, betas, next_beta, info.beta));
  }
  const auto is_zero = [](float v) { return v == 0; };
  for (Activations& a : all) {
    if (std::all_of(a.alpha.begin(), a.alpha.end(), is_zero)) a.alpha.clear();
    if (std::all_of(a.beta.begin(), a.beta.end(), is_zero)) a.beta.clear();
  }
  return all;
}

// --- the operators' own fields
std::vector<std::string> default_activations(const RNN&) {
  return {"Tanh"};
}
std::vector<std::string> default_activations(const GRU&) {
  return {"Sigmoid", "Tanh"};
}
std::vector<std::string> default_activations(const LSTM&) {
  return {"Sigmoid", "Tanh", "Tanh"};
}
void set_fields(const NodeImport&, const Activations& a, RNN& op) {
  op.f = a.kinds[0];
}
void set_fields(const NodeImport& node, const Activations& a, GRU& op) {
  op.f = a.kinds[0];
  op.g = a.kinds[1];
  op.linear_before_reset = node.integer("linear_before_reset", 0) != 0;
}
void set_fields(const NodeImport& node, const Activations& a, LSTM& op) {
  op.f = a.kinds[0];
  op.g = a.kinds[1];
  op.h = a.kinds[2];
  op.input_forget = node.integer("input_forget", 0) != 0;
}

float read_clip(const NodeImport& node) {
  const float clip = node.real("clip", 0);
  if (node.has_attribute("clip") && !(clip > 0))
    node.fail("clip is " + std::to_string(clip) + ", expected a positive number");
  return clip;
}

std::vector<bool> read_directions(const NodeImport& node) {
  const std::string direction = node.text("direction", "forward");
  if (direction == "forward") return {false};
  if (direction == "reverse") return {true};
  if (direction == "bidirectional") return {false, true};
  node.fail("direction is '" + direction + "', expected forward, reverse or bidirectional");
}

// --- shapes
void check_shapes(const NodeImport& node, size_t directions, bool batch_first) {
  for (const size_t input : {kX, kW, kR}) {
    if (node.rank(input) != 3) node.fail("input " + std::to_string(input) + " must have three dimensions");
  }
  const size_t state = batch_first ? 1 : 0;
  for (const size_t input : {kW, kR, kBias, kInitialH, kInitialC, kPeepholes}) {
    if (!node.has(input)) continue;
    const size_t at = input == kInitialH || input == kInitialC ? state : 0;
    const Shape shape = node.shape(input);
    if (shape.size() <= at || !(shape[at] == Dim(static_cast<int64_t>(directions))))
      node.fail("input " + std::to_string(input) + " is not of " + std::to_string(directions) +
                " directions");
  }
}

// Part `direction` along `axis` of an input, without that dim.
ValueId part(NodeImport& node, size_t input, size_t direction, size_t axis, const std::string& name) {
  if (!node.has(input)) return kNoValue;
  const auto at = static_cast<int64_t>(direction);
  Shape shape = node.shape(input);
  const bool whole = shape[axis].is_constant(1);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  const ValueId v = whole
                        ? node.in(input)
                        : node.slice(node.in(input), static_cast<int64_t>(axis), at, at + 1, name + "_part");
  return node.reshape(v, shape, name);
}

// Results of the directions side by side along a new `axis`.
ValueId stacked(NodeImport& node, const Values& parts, size_t axis, const std::string& name) {
  Values wide;
  for (const ValueId v : parts) {
    Shape shape = node.shape_of(v);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
    wide.push_back(node.reshape(v, shape, name + "_direction"));
  }
  return wide.size() == 1 ? wide[0] : node.add(Concat{.axis = static_cast<int64_t>(axis)}, wide, name);
}

template <class T>
Values import_recurrent(NodeImport& node) {
  const std::vector<bool> directions = read_directions(node);
  const bool batch_first = node.integer("layout", 0) != 0;
  const size_t state = batch_first ? 1 : 0;  // where states have their direction
  check_shapes(node, directions.size(), batch_first);
  const std::vector<Activations> activations =
      read_activations(node, directions.size(), default_activations(T{}));
  const ValueId x = batch_first ? node.transpose(node.in(kX), {1, 0, 2}, "time_major") : node.in(kX);
  std::vector<Values> results(3);
  for (size_t d = 0; d < directions.size(); ++d) {
    const std::string name = directions.size() == 1 ? "" : directions[d] ? "backward" : "forward";
    const auto of = [&](size_t input, size_t axis, const char* what) {
      return part(node, input, d, axis, name + (name.empty() ? "" : "_") + what);
    };
    T op{.alpha = activations[d].alpha,
         .beta = activations[d].beta,
         .clip = read_clip(node),
         .reverse = directions[d]};
    set_fields(node, activations[d], op);
    constexpr bool is_lstm = std::is_same_v<T, LSTM>;
    Values inputs = {x,
                     of(kW, 0, "w"),
                     of(kR, 0, "r"),
                     of(kBias, 0, "bias"),
                     node.in_or_none(kLengths),
                     of(kInitialH, state, "h")};
    if (is_lstm) {
      inputs.push_back(of(kInitialC, state, "c"));
      inputs.push_back(of(kPeepholes, 0, "peepholes"));
    }
    const Values outputs = node.add_multi(op, inputs, is_lstm ? 3 : 2, name);
    for (size_t i = 0; i < outputs.size(); ++i) results[i].push_back(outputs[i]);
  }
  Values all;
  for (size_t i = 0; i < (std::is_same_v<T, LSTM> ? 3 : 2); ++i) {
    if (!node.wants_output(i)) {
      all.push_back(kNoValue);
    } else if (i == 0 && batch_first) {
      all.push_back(node.transpose(stacked(node, results[0], 1, "y"), {2, 0, 1, 3}, "batch_major"));
    } else {
      all.push_back(stacked(node, results[i], i == 0 ? 1 : state, i == 0 ? "y" : i == 1 ? "y_h" : "y_c"));
    }
  }
  return all;
}

}  // namespace

std::vector<Importer> recurrent_importers() {
  return {{"GRU", 1, kLatestOpset, import_recurrent<GRU>},
          {"LSTM", 1, kLatestOpset, import_recurrent<LSTM>},
          {"RNN", 1, kLatestOpset, import_recurrent<RNN>}};
}

}  // namespace lathe::onnx
