// SPDX-License-Identifier: Apache-2.0
#include "problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "ops/build.h"

namespace lathe::bench {
namespace {

using Numbers = std::map<char, int64_t>;

// "n1c64h56" as letters with numbers; `known` are the letters that may occur.
Numbers parse_numbers(const std::string& problem, const std::string& text, const std::string& known) {
  Numbers numbers;
  for (size_t at = 0; at < text.size();) {
    const char letter = text[at++];
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    if (known.find(letter) == std::string::npos || end == at || end - at > 9)
      throw_input_error(fmt::format("problem '{}': expected one of the letters {} and a number at '{}'",
                                    problem, known, text.substr(at - 1)));
    numbers[letter] = std::stoll(text.substr(at, end - at));
    at = end;
  }
  return numbers;
}

int64_t get(const std::string& problem, const Numbers& numbers, char letter, int64_t otherwise = -1) {
  const auto found = numbers.find(letter);
  const int64_t value = found == numbers.end() ? otherwise : found->second;
  if (value < 0)
    throw_input_error(fmt::format("problem '{}': '{}' and its number are missing", problem, letter));
  return value;
}

Tensor random_constant(const Extents& extents) {
  std::vector<float> values(static_cast<size_t>(element_count(extents)));
  uint32_t state = 12345;
  for (float& v : values) {
    state = state * 1664525 + 1013904223;
    v = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
  }
  return Tensor::from<float>(extents, values);
}

lathe::Shape shape_of(const Extents& extents) {
  return {extents.begin(), extents.end()};
}

ValueId add_conv(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const auto at = [&](char letter, int64_t otherwise = -1) { return get(text, v, letter, otherwise); };
  const int64_t r = at('r', 1), s = at('s', r), groups = at('g', 1), in = at('c'), out = at('k');
  const int64_t stride_y = at('u', 1), stride_x = at('v', stride_y), pad_y = at('p', r / 2),
                pad_x = at('q', at('p', s / 2));
  if (groups < 1 || in % groups != 0 || out % groups != 0)
    throw_input_error(fmt::format("problem '{}': the channels do not divide into {} groups", text, groups));
  const Conv conv{.kernel = {r, s},
                  .strides = {stride_y, stride_x},
                  .dilations = {1, 1},
                  .pads_begin = {pad_y, pad_x},
                  .pads_end = {pad_y, pad_x},
                  .groups = groups};
  const int64_t h = at('h'), w = at('w', h);
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({at('n', 1), in, h, w}));
  const ValueId weights = editor.add_constant("w", random_constant({out, in / groups, r, s}));
  const ValueId bias = editor.add_constant("bias", random_constant({out}));
  const ValueId y = append_node(editor, "layer", conv, {x, weights, bias}, {})[0];
  double outputs = 1;
  for (const Dim& dim : editor.graph().value(y).shape) outputs *= static_cast<double>(dim.value());
  operations = 2.0 * outputs * static_cast<double>(in / groups * r * s);
  return y;
}

// A transposed convolution. Without p there are no pads.
ValueId add_deconv(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const auto at = [&](char letter, int64_t otherwise = -1) { return get(text, v, letter, otherwise); };
  const int64_t r = at('r'), s = at('s', r), n = at('n', 1), in = at('c'), out = at('k');
  const int64_t h = at('h'), w = at('w', h), stride = at('u', 1), pad_y = at('p', 0), pad_x = at('q', pad_y);
  const ConvTranspose op{.kernel = {r, s},
                         .strides = {stride, at('v', stride)},
                         .pads_begin = {pad_y, pad_x},
                         .pads_end = {pad_y, pad_x}};
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({n, in, h, w}));
  const ValueId weights = editor.add_constant("w", random_constant({in, out, r, s}));
  const ValueId bias = editor.add_constant("bias", random_constant({out}));
  operations =
      2.0 * static_cast<double>(n * in) * static_cast<double>(h * w) * static_cast<double>(out * r * s);
  return append_node(editor, "layer", op, {x, weights, bias}, {})[0];
}

ValueId add_matmul(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const int64_t m = get(text, v, 'm'), n = get(text, v, 'n'), k = get(text, v, 'k'), b = get(text, v, 'b', 1);
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({b, m, k}));
  const ValueId w = editor.add_constant("w", random_constant({k, n}));
  operations = 2.0 * static_cast<double>(b * m * n) * static_cast<double>(k);
  return append_node(editor, "layer", MatMul{}, {x, w}, {})[0];
}

// With a bias and GELU between the products.
ValueId add_feed_forward(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const int64_t m = get(text, v, 'm'), k = get(text, v, 'k'), h = get(text, v, 'h'), n = get(text, v, 'n', k);
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({m, k}));
  const ValueId first = editor.add_constant("first", random_constant({k, h}));
  const ValueId second = editor.add_constant("second", random_constant({h, n}));
  const ValueId bias = editor.add_constant("bias", random_constant({h}));
  operations = 2.0 * static_cast<double>(m * h) * static_cast<double>(k + n);
  const FeedForward op{.hidden = PointwiseProgram::parse("Add(0,1) GeluErf(2)", 2)};
  return append_node(editor, "layer", op, {x, first, second, bias}, {})[0];
}

// With `activation` after the expansion and the window.
ValueId add_depthwise_block(const std::string& text, const Numbers& v, const std::string& activation,
                            GraphEditor& editor, double& operations) {
  const auto at = [&](char letter, int64_t otherwise = -1) { return get(text, v, letter, otherwise); };
  const int64_t c = at('c'), m = at('m'), k = at('k'), r = at('r'), u = at('u', 1);
  const int64_t n = at('n', 1), h = at('h'), w = at('w', h);
  const PointwiseProgram program = PointwiseProgram::parse(activation, 1);
  const DepthwiseBlock op{.kernel = {r, r},
                          .strides = {u, u},
                          .dilations = {1, 1},
                          .pads_begin = {r / 2, r / 2},
                          .pads_end = {r / 2, r / 2},
                          .expand_epilogue = program,
                          .depthwise_epilogue = k > 0 ? program : PointwiseProgram{}};
  std::vector<ValueId> inputs = {editor.add_input("x", DType::Float32, shape_of({n, c > 0 ? c : m, h, w}))};
  const auto add_part = [&](bool wanted, const Extents& weights) {
    const std::string name = std::to_string(inputs.size());
    inputs.push_back(wanted ? editor.add_constant("w" + name, random_constant(weights)) : kNoValue);
    inputs.push_back(wanted ? editor.add_constant("b" + name, random_constant({weights[0]})) : kNoValue);
  };
  add_part(c > 0, {m, c, 1, 1});
  add_part(true, {m, 1, r, r});
  add_part(k > 0, {k, m, 1, 1});
  const ValueId y = append_node(editor, "layer", op, inputs, {})[0];
  if (k == 0) editor.set_epilogue(editor.graph().value(y).producer, program, {});
  const lathe::Shape& out = editor.graph().value(y).shape;
  operations = 2.0 * static_cast<double>(n * m) *
               static_cast<double>(h * w * c + out[2].value() * out[3].value() * (r * r + k));
  return y;
}

ValueId add_attention(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const int64_t b = get(text, v, 'b', 1), h = get(text, v, 'h'), s = get(text, v, 's'), d = get(text, v, 'd');
  std::vector<ValueId> inputs;
  for (const char* name : {"q", "k", "v"})
    inputs.push_back(editor.add_input(name, DType::Float32, shape_of({b, s, h, d})));
  Attention op;
  op.layout = AttentionLayout::BSHD;
  op.scale = 1.0f / static_cast<float>(d);
  operations = 4.0 * static_cast<double>(b * h * s * s) * static_cast<double>(d);
  return append_node(editor, "layer", op, inputs, {})[0];
}

ValueId add_pool(const std::string& text, const Numbers& v, PoolKind kind, GraphEditor& editor,
                 double& operations) {
  const auto at = [&](char letter, int64_t otherwise = -1) { return get(text, v, letter, otherwise); };
  const int64_t r = at('r'), s = at('s', r), stride = at('u', 1), pad_y = at('p', r / 2),
                pad_x = at('q', at('p', s / 2));
  const Pool pool{.kind = kind,
                  .kernel = {r, s},
                  .strides = {stride, at('v', stride)},
                  .dilations = {1, 1},
                  .pads_begin = {pad_y, pad_x},
                  .pads_end = {pad_y, pad_x}};
  const int64_t h = at('h');
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({at('n', 1), at('c'), h, at('w', h)}));
  const ValueId y = append_node(editor, "layer", pool, {x}, {})[0];
  operations = static_cast<double>(r * s);
  for (const Dim& dim : editor.graph().value(y).shape) operations *= static_cast<double>(dim.value());
  return y;
}

ValueId add_squeeze_excite(const std::string& text, const Numbers& v, GraphEditor& editor,
                           double& operations) {
  const auto at = [&](char letter, int64_t otherwise = -1) { return get(text, v, letter, otherwise); };
  const int64_t n = at('n', 1), c = at('c'), h = at('h'), w = at('w', h), m = at('m');
  const SqueezeExcite op{.squeeze = PointwiseProgram::parse("Silu[1](0)", 1),
                         .excite = PointwiseProgram::parse("Sigmoid(0)", 1)};
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({n, c, h, w}));
  std::vector<ValueId> inputs = {x};
  for (const Extents& extents : std::vector<Extents>{{m, c, 1, 1}, {m}, {c, m, 1, 1}, {c}})
    inputs.push_back(editor.add_constant("w" + std::to_string(inputs.size()), random_constant(extents)));
  operations = static_cast<double>(n * c) * static_cast<double>(2 * h * w + 4 * m);
  return append_node(editor, "layer", op, inputs, {})[0];
}

ValueId add_rows(const std::string& text, const Numbers& v, bool softmax, GraphEditor& editor,
                 double& operations) {
  const int64_t m = get(text, v, 'm'), n = get(text, v, 'n');
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({m, n}));
  operations = 8 * static_cast<double>(m * n);
  if (softmax) return append_node(editor, "layer", Softmax{.axis = 1}, {x}, {})[0];
  const ValueId scale = editor.add_constant("scale", random_constant({n}));
  const ValueId bias = editor.add_constant("bias", random_constant({n}));
  return append_node(editor, "layer", LayerNorm{.axis = 1}, {x, scale, bias}, {})[0];
}

// The mean of each channel's image.
ValueId add_mean(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const int64_t n = get(text, v, 'n', 1), c = get(text, v, 'c'), h = get(text, v, 'h'),
                w = get(text, v, 'w', h);
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({n, c, h, w}));
  operations = static_cast<double>(n * c) * static_cast<double>(h * w);
  return append_node(editor, "layer", Reduce{.kind = ReduceKind::Mean, .axes = Ints{2, 3}}, {x}, {})[0];
}

ValueId add_group_norm(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const int64_t n = get(text, v, 'n', 1), c = get(text, v, 'c'), h = get(text, v, 'h'),
                w = get(text, v, 'w', h);
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({n, c, h, w}));
  const ValueId scale = editor.add_constant("scale", random_constant({c}));
  const ValueId bias = editor.add_constant("bias", random_constant({c}));
  operations = 8 * static_cast<double>(n * c) * static_cast<double>(h * w);
  return append_node(editor, "layer", GroupNorm{.groups = get(text, v, 'g')}, {x, scale, bias}, {})[0];
}

// Nearest neighbours, u times as high and wide.
ValueId add_resize(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const int64_t n = get(text, v, 'n', 1), c = get(text, v, 'c'), h = get(text, v, 'h'),
                w = get(text, v, 'w', h);
  const auto factor = static_cast<float>(get(text, v, 'u', 2));
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({n, c, h, w}));
  const Resize op{.coordinates = CoordinateMode::Asymmetric,
                  .nearest = NearestMode::Floor,
                  .scales = {1, 1, factor, factor}};
  operations = static_cast<double>(n * c) * static_cast<double>(h * w) * factor * factor;
  return append_node(editor, "layer", op, {x}, {})[0];
}

// [b, s, h, d] to [b, h, s, d], as before and after attention.
ValueId add_heads(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const int64_t b = get(text, v, 'b', 1), h = get(text, v, 'h'), s = get(text, v, 's'), d = get(text, v, 'd');
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({b, s, h, d}));
  operations = static_cast<double>(b * h) * static_cast<double>(s * d);
  return append_node(editor, "layer", Transpose{{0, 2, 1, 3}}, {x}, {})[0];
}

// The words are the whole layer: its steps in one pointwise program.
ValueId add_pointwise(const std::string& text, const Numbers& v, GraphEditor& editor, double& operations) {
  const int64_t m = get(text, v, 'm'), n = get(text, v, 'n');
  const ValueId x = editor.add_input("x", DType::Float32, shape_of({m, n}));
  operations = static_cast<double>(m * n);
  return append_node(editor, "layer", Pointwise{PointwiseCode::Neg}, {x}, {})[0];
}

Problem layer_of_file(const std::string& text, const std::string& path) {
  Problem problem{.text = text, .graph = parse_graph(read_file(path))};
  verify_graph(problem.graph);
  if (problem.graph.order().size() != 1)
    throw_input_error(fmt::format("problem '{}': the graph has {} layers instead of one", text,
                                  problem.graph.order().size()));
  problem.node = problem.graph.order()[0];
  const Node& node = problem.graph.node(problem.node);
  std::vector<Extents> inputs, outputs;
  for (const ValueId v : node.inputs)
    inputs.push_back(v == kNoValue ? Extents() : to_extents(problem.graph.value(v).shape));
  for (const ValueId v : node.outputs)
    outputs.push_back(v == kNoValue ? Extents() : to_extents(problem.graph.value(v).shape));
  problem.operations = node_flops(node, {inputs, outputs});
  return problem;
}

}  // namespace

Problem parse_problem(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos)
    throw_input_error(fmt::format("problem '{}': expected a kind, such as conv:,", text));
  const std::string kind = text.substr(0, colon);
  std::istringstream rest(text.substr(colon + 1));
  std::string numbers, word;
  std::getline(rest, numbers, ',');
  const bool from_file = kind == "graph";
  Problem problem = from_file ? layer_of_file(text, numbers) : Problem{.text = text};
  GraphEditor editor(problem.graph);
  static const std::map<std::string, std::string> kActivations = {
      {"relu", "Relu({})"}, {"relu6", "Clip[0,6]({})"}, {"silu", "Silu[1]({})"}, {"gelu", "GeluErf({})"}};
  std::vector<std::string> words;
  while (std::getline(rest, word, ',')) words.push_back(word);
  // The first activation, for a layer that has it inside.
  const auto take_activation = [&] {
    const auto at =
        std::find_if(words.begin(), words.end(), [](const auto& w) { return kActivations.contains(w); });
    if (at == words.end())
      throw_input_error(fmt::format("problem '{}': name an activation: relu, relu6, silu or gelu", text));
    const std::string program = fmt::format(fmt::runtime(kActivations.at(*at)), 0);
    words.erase(at);
    return program;
  };
  ValueId y = kNoValue;
  if (from_file)
    y = problem.graph.node(problem.node).outputs[0];
  else if (kind == "conv")
    y = add_conv(text, parse_numbers(text, numbers, "nchwkrsuvpqg"), editor, problem.operations);
  else if (kind == "deconv")
    y = add_deconv(text, parse_numbers(text, numbers, "nchwkrsuvpq"), editor, problem.operations);
  else if (kind == "matmul")
    y = add_matmul(text, parse_numbers(text, numbers, "bmnk"), editor, problem.operations);
  else if (kind == "feed_forward")
    y = add_feed_forward(text, parse_numbers(text, numbers, "mkhn"), editor, problem.operations);
  else if (kind == "depthwise_block")
    y = add_depthwise_block(text, parse_numbers(text, numbers, "nchwmkru"), take_activation(), editor,
                            problem.operations);
  else if (kind == "attention")
    y = add_attention(text, parse_numbers(text, numbers, "bhsd"), editor, problem.operations);
  else if (kind == "maxpool" || kind == "avgpool")
    y = add_pool(text, parse_numbers(text, numbers, "nchwrsuvpq"),
                 kind == "maxpool" ? PoolKind::Max : PoolKind::Average, editor, problem.operations);
  else if (kind == "squeeze_excite")
    y = add_squeeze_excite(text, parse_numbers(text, numbers, "nchwm"), editor, problem.operations);
  else if (kind == "softmax" || kind == "layer_norm")
    y = add_rows(text, parse_numbers(text, numbers, "mn"), kind == "softmax", editor, problem.operations);
  else if (kind == "mean")
    y = add_mean(text, parse_numbers(text, numbers, "nchw"), editor, problem.operations);
  else if (kind == "group_norm")
    y = add_group_norm(text, parse_numbers(text, numbers, "nchwg"), editor, problem.operations);
  else if (kind == "resize")
    y = add_resize(text, parse_numbers(text, numbers, "nchwu"), editor, problem.operations);
  else if (kind == "heads")
    y = add_heads(text, parse_numbers(text, numbers, "bhsd"), editor, problem.operations);
  else if (kind == "pointwise")
    y = add_pointwise(text, parse_numbers(text, numbers, "mn"), editor, problem.operations);
  else
    throw_input_error(fmt::format(
        "problem '{}': unknown kind '{}': use conv, deconv, matmul, feed_forward, depthwise_block, "
        "attention, maxpool, avgpool, squeeze_excite, softmax, layer_norm, group_norm, mean, resize, heads, "
        "pointwise or graph",
        text, kind));
  problem.node = problem.graph.value(y).producer;
  if (from_file && std::any_of(words.begin(), words.end(),
                               [](const auto& w) { return w != "f32" && w != "bf16" && w != "f16"; }))
    throw_input_error(
        fmt::format("problem '{}': a layer of a file has its own epilogue: use f32, bf16 or f16", text));

  // The layer's result is value 0 of its epilogue, the operand of `add` 1, then come the results of the
  // instructions.
  const bool adds = std::find(words.begin(), words.end(), "add") != words.end();
  std::string program;
  int last = 0, values = adds ? 2 : 1;
  const auto append = [&](const std::string& instruction) {
    program += (program.empty() ? "" : " ") + instruction;
    last = values++;
  };
  for (const std::string& w : words) {
    if (w == "f32") continue;
    if (w == "bf16" || w == "f16") {
      (w == "bf16" ? problem.bf16 : problem.f16) = true;
    } else if (w == "add") {
      append(fmt::format("Add({},1)", last));
    } else if (const auto found = kActivations.find(w); found != kActivations.end()) {
      append(fmt::format(fmt::runtime(found->second), last));
    } else {
      throw_input_error(fmt::format(
          "problem '{}': unknown word '{}': use f32, bf16, f16, relu, relu6, silu, gelu or add", text, w));
    }
  }
  if (problem.bf16) editor.set_allowed_types(problem.node, {DType::BFloat16});
  if (problem.f16) editor.set_allowed_types(problem.node, {DType::Float16});
  if (!program.empty()) {
    std::vector<ValueId> operands;
    if (adds) operands.push_back(editor.add_input("other", DType::Float32, problem.graph.value(y).shape));
    editor.set_epilogue(problem.node, PointwiseProgram::parse(program, adds ? 2 : 1), operands);
  }
  if (!from_file) editor.mark_output(y);
  return problem;
}

}  // namespace lathe::bench
