// SPDX-License-Identifier: Apache-2.0
#include "backend/check/layer_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <thread>

#include "base/floats.h"
#include "base/thread_pool.h"
#include "ops/build.h"

namespace lathe {
namespace {

constexpr size_t kGuard = 128;
constexpr std::byte kPoison{0xcd};

Tensor random_tensor(const CheckedInput& input, bool all_bits, std::mt19937& random) {
  if (input.value) return input.value;
  std::vector<double> values(static_cast<size_t>(element_count(input.extents)));
  std::uniform_real_distribution<double> uniform(input.low, input.high);
  for (double& v : values) {
    const auto value = static_cast<float>(uniform(random));
    v = all_bits ? value : bf16_to_float(float_to_bf16(value));
  }
  if (!is_float(input.dtype))
    for (double& v : values) v = std::floor(v);
  return Tensor::from_doubles(input.dtype, input.extents, values);
}

std::vector<double> numbers_of(Special special) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (special) {
    case Special::NaN:
      return {kNaN, kNaN};
    case Special::Infinity:
      return {kInfinity, -kInfinity};
    case Special::Tiny:
      return {0x1p-130, -0.0, -0x3p-131, 0x1p-133};  // bfloat16 has them, too
    case Special::None:
      break;
  }
  return {};
}

// The first element, the last, and some between them.
Tensor with_special(const Tensor& tensor, Special special) {
  const std::vector<double> numbers = numbers_of(special);
  if (numbers.empty() || !is_float(tensor.dtype()) || tensor.size() == 0) return tensor;
  std::vector<double> values = tensor.to_doubles();
  for (size_t i = 0; i < numbers.size(); ++i)
    values[i * (values.size() - 1) / std::max<size_t>(numbers.size() - 1, 1)] = numbers[i];
  return Tensor::from_doubles(tensor.dtype(), tensor.extents(), values);
}

// Keys that a query does not see are not read, where the oracle multiplies them by zero, which makes NaN of
// NaN. And a query of NaN that sees no key at all, by a mask of bool, is zero there and NaN in a kernel that
// adds minus infinity.
size_t special_inputs(const LayerCase& layer) {
  const size_t all = layer.inputs.size() + layer.operands.size();
  const auto* attention = std::get_if<Attention>(&layer.op);
  if (attention == nullptr) return all;
  const bool has_mask = layer.inputs.size() > 3;
  if (has_mask && layer.inputs[3].dtype == DType::Bool) return 0;
  return attention->causal || has_mask ? 1 : all;
}

// May NaN stand where the oracle has a number? Transforms add up what belongs to several results, the stem
// multiplies what lies beside its window by weights of zero, as joined groups do with each other. FP32 as
// three BF16 makes NaN of an infinite operand, and so do the padded channels inside of a depthwise block,
// where an activation would make a number of infinity again.
bool spreads(const Tactic& tactic, Special special) {
  if (tactic.error_factor > 1 || tactic.runner == "StemConvolution" || tactic.params.get("joined", 1) > 1)
    return true;
  return special == Special::Infinity &&
         (tactic.params.get("bf16x6", 0) != 0 || tactic.runner == "DepthwiseBlock");
}

// Is `got` right where one of the two is not finite? nullopt: both are, so that tolerances decide.
std::optional<bool> compare_special(double got, double expected, Special special, bool spreads) {
  if (std::isfinite(got) && std::isfinite(expected)) return std::nullopt;
  if (special == Special::Infinity && std::isnan(expected)) return true;
  if (std::isfinite(expected)) return spreads && special != Special::Tiny && std::isnan(got);
  if (special == Special::NaN && std::isnan(expected)) return std::isnan(got);
  if (special == Special::Infinity) return !std::isfinite(got);
  return got == expected || (std::isnan(got) && std::isnan(expected)) || (spreads && std::isnan(got));
}

// Where a logical index lies in storage.
int64_t storage_offset(const Extents& extents, const Format& format, int64_t linear) {
  if (format.is_linear()) return linear;
  Extents index(extents.size());
  for (size_t d = extents.size(); d-- > 0; linear /= extents[d]) index[d] = linear % extents[d];
  const int64_t c = extents[1], block = format.kind == Format::Kind::ChannelBlocked ? format.block : c;
  int64_t o = index[0] * ((c + block - 1) / block) + index[1] / block;
  for (size_t d = 2; d < extents.size(); ++d) o = o * extents[d] + index[d];
  return o * block + index[1] % block;
}

void write_element(DType type, std::byte* base, int64_t i, const Tensor& from, int64_t k) {
  const int64_t bytes = dtype_bytes(type, 1);
  if (type == from.dtype()) {
    std::memcpy(base + i * bytes, from.bytes().data() + k * bytes, static_cast<size_t>(bytes));
    return;
  }
  const float value = from.data<float>()[static_cast<size_t>(k)];
  const uint16_t bits = type == DType::BFloat16 ? float_to_bf16(value) : float_to_fp16(value);
  std::memcpy(base + i * 2, &bits, 2);
}

// The first padding channel of a blocked result that is not zero, as a message; else empty.
std::string padding_error(const Extents& extents, const Format& format, const std::vector<double>& stored) {
  if (format.kind != Format::Kind::ChannelBlocked) return {};
  Extents padded = extents;
  padded[1] = (extents[1] + format.block - 1) / format.block * format.block;
  int64_t spatial = 1;
  for (size_t d = 2; d < extents.size(); ++d) spatial *= extents[d];
  for (int64_t n = 0; n < extents[0]; ++n)
    for (int64_t c = extents[1]; c < padded[1]; ++c)
      for (int64_t s = 0; s < spatial; ++s)
        if (stored[static_cast<size_t>(storage_offset(padded, format, (n * padded[1] + c) * spatial + s))] !=
            0)
          return "padding channel " + std::to_string(c) + " is not zero";
  return {};
}

// What is wrong with one output; empty when nothing is.
std::string result_error(const LayerCase& layer, Special special, const Tensor& want, const TensorType& type,
                         const Tactic& tactic, const std::vector<std::byte>& buffer) {
  const std::vector<double> values = want.to_doubles();
  const std::span<const std::byte> stored(buffer.data(), buffer.size() - kGuard);
  // Elements of 4 and 2 bits share bytes.
  const int64_t stored_count = 8 * static_cast<int64_t>(stored.size()) / dtype_info(type.dtype).bits;
  const std::vector<double> stored_values =
      Tensor::wrap(type.dtype, {stored_count}, stored, nullptr).to_doubles();
  double largest = 0;
  for (const double v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  const double rounding = rounding_of(type.dtype);
  // Roundings inside the layer, to the type of its data, move small results by a part of the large ones.
  const double inside = tactic.inputs.empty() ? rounding : rounding_of(tactic.inputs[0].dtype);
  const double limit = is_float(type.dtype) ? (layer.tolerance + inside * (layer.rounding - 1) / 4) *
                                                  tactic.error_factor * largest
                                            : 0;
  // Instructions for BF16 take denormal numbers for zero.
  const double least = special == Special::Tiny && is_float(type.dtype) ? 1e-36 : 0;
  // ONNX leaves open what integer infinity becomes.
  if (special == Special::Infinity && !is_float(type.dtype)) return {};
  for (int64_t k = 0; k < want.size(); ++k) {
    const double expected = values[static_cast<size_t>(k)];
    const double got = stored_values[static_cast<size_t>(storage_offset(want.extents(), type.format, k))];
    if (got == expected || (std::isnan(got) && std::isnan(expected))) continue;
    if (compare_special(got, expected, special, spreads(tactic, special)).value_or(false)) continue;
    if (std::abs(got - expected) <= least + limit + layer.rounding * rounding * std::abs(expected)) continue;
    return "element " + std::to_string(k) + " of " + to_string(want.extents()) + ": " + std::to_string(got) +
           ", expected " + std::to_string(expected) + " (largest " + std::to_string(largest) + ")";
  }
  for (size_t g = stored.size(); g < buffer.size(); ++g)
    if (buffer[g] != kPoison) return "the layer writes behind it";
  return padding_error(want.extents(), type.format, stored_values);
}

}  // namespace

double rounding_of(DType type) {
  if (type == DType::BFloat16) return 1.0 / 256;
  if (type == DType::Float16) return 1.0 / 2048;
  return 0;
}

std::vector<Extents> LayerProblem::input_extents() const {
  std::vector<Extents> all;
  for (const Tensor& t : inputs) all.push_back(t ? t.extents() : Extents{});
  return all;
}

std::vector<Extents> LayerProblem::output_extents() const {
  std::vector<Extents> all;
  for (const Tensor& t : expected) all.push_back(t.extents());
  return all;
}

LayerProblem make_problem(const LayerCase& layer, Special special) {
  LayerProblem p{.special = special};
  GraphEditor editor(p.graph);
  std::mt19937 random(7);
  std::vector<ValueId> ids, operand_ids;
  const auto add = [&](const CheckedInput& input) {
    if (input.absent) {
      p.inputs.emplace_back();
      return kNoValue;
    }
    Tensor t = random_tensor(input, layer.all_bits, random);
    if (!input.constant && p.inputs.size() < special_inputs(layer)) t = with_special(t, special);
    p.inputs.push_back(t);
    const std::string name = "x" + std::to_string(p.inputs.size());
    if (input.constant) return editor.add_constant(name, t);
    Shape shape = to_shape(input.extents);
    if (layer.dynamic_batch && shape.size() == layer.inputs[0].extents.size() &&
        input.extents[0] == layer.inputs[0].extents[0]) {
      shape[0] = Dim::symbol("batch");
      p.symbols["batch"] = input.extents[0];
      p.ranges["batch"] = {1, input.extents[0], input.extents[0] * 2};
    }
    return editor.add_input(name, input.dtype, shape);
  };
  for (const CheckedInput& input : layer.inputs) ids.push_back(add(input));
  if (std::holds_alternative<Reformat>(layer.op)) {
    const Value x = p.graph.value(ids[0]);
    editor.set_type(ids[0], layer.from.dtype, layer.from.format);
    p.node = editor.add_node(
        "layer", layer.op, ids,
        {{.name = "y", .dtype = layer.to.dtype, .shape = x.shape, .format = layer.to.format}}, {});
    p.expected = p.inputs;
    return p;
  }
  std::vector<ValueId> outputs = append_node(editor, "layer", layer.op, ids, {}, {}, layer.outputs);
  p.node = p.graph.order().back();
  if (!layer.unasked.empty()) {
    std::vector<GraphEditor::NewValue> asked;
    for (const ValueId v : outputs)
      asked.push_back({p.graph.value(v).name, p.graph.value(v).dtype, p.graph.value(v).shape});
    for (const size_t i : layer.unasked) asked.at(i) = {};
    editor.remove_node(p.node);
    p.node = editor.add_node("layer", layer.op, ids, std::move(asked), {});
    outputs = p.graph.node(p.node).outputs;
  }
  for (const CheckedInput& input : layer.operands) operand_ids.push_back(add(input));
  if (!layer.epilogue.empty()) editor.set_epilogue(p.node, layer.epilogue, operand_ids);
  editor.set_allowed_types(p.node, layer.allowed_types);
  for (const ValueId v : outputs)
    if (v != kNoValue) editor.mark_output(v);
  if (!layer.expected.empty()) {
    p.expected = layer.expected;
    return p;
  }
  static ThreadPool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  const EvaluateContext context{
      .inputs = p.inputs, .output_count = outputs.size(), .symbols = &p.symbols, .pool = &pool};
  p.expected = evaluate_node(p.graph.node(p.node), context, p.graph.value(outputs[0]).dtype);
  p.expected.resize(outputs.size());  // operators may give optional results that nobody asked for
  return p;
}

std::vector<LayerProblem> special_problems(const LayerCase& layer, const LayerProblem& plain) {
  constexpr double kManyOperations = 2e7;
  if (!layer.expected.empty()) return {};
  const Node& node = plain.graph.node(plain.node);
  const std::vector<Extents> inputs = plain.input_extents(), outputs = plain.output_extents();
  if (node_flops(node, {inputs, outputs}) > kManyOperations) return {};
  std::vector<LayerProblem> problems;
  for (const Special special : kSpecials) problems.push_back(make_problem(layer, special));
  return problems;
}

bool is_checked_with(const Tactic& tactic, Special special) {
  if (special == Special::NaN) return tactic.keeps_nan;
  const auto is_half = [](const TensorType& type) { return type.dtype == DType::Float16; };
  return special != Special::Tiny || std::none_of(tactic.inputs.begin(), tactic.inputs.end(), is_half);
}

std::string describe(const Tactic& tactic) {
  std::string text = tactic.name;
  for (const TensorType& type : tactic.inputs) text += " " + to_string(type);
  text += " ->";
  for (const TensorType& type : tactic.outputs) text += " " + to_string(type);
  return text;
}

OperandMemory::OperandMemory(const std::vector<std::byte>& content, size_t alignment)
    : bytes_(static_cast<std::byte*>(::operator new(content.size(), std::align_val_t(alignment))),
             Free{alignment}) {
  std::copy(content.begin(), content.end(), bytes_.get());
}

LayerBuffers make_buffers(const LayerProblem& p, const Tactic& t) {
  LayerBuffers b;
  const Node& node = p.graph.node(p.node);
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    b.inputs.emplace_back();
    if (t.inputs[i].dtype == DType::Undefined) continue;
    const Tensor& x = p.inputs[i];
    b.inputs[i].resize(
        static_cast<size_t>(storage_bytes(t.inputs[i].dtype, x.extents(), t.inputs[i].format)));
    if (t.inputs[i].dtype == x.dtype() && t.inputs[i].format.is_linear()) {
      std::copy(x.bytes().begin(), x.bytes().end(), b.inputs[i].begin());
      continue;
    }
    for (int64_t k = 0; k < x.size(); ++k)
      write_element(t.inputs[i].dtype, b.inputs[i].data(), storage_offset(x.extents(), t.inputs[i].format, k),
                    x, k);
  }
  for (size_t i = 0; i < p.expected.size(); ++i) {
    b.outputs.emplace_back();
    if (node.outputs[i] == kNoValue) continue;
    const auto bytes = storage_bytes(t.outputs[i].dtype, p.expected[i].extents(), t.outputs[i].format);
    b.outputs[i].assign(static_cast<size_t>(bytes) + kGuard, kPoison);
  }
  return b;
}

void expect_results(const LayerCase& layer, const LayerProblem& p, const Tactic& t, const LayerBuffers& b,
                    const std::string& what) {
  for (size_t o = 0; o < p.expected.size(); ++o) {
    if (b.outputs[o].empty()) continue;
    const std::string error = result_error(layer, p.special, p.expected[o], t.outputs[o], t, b.outputs[o]);
    if (!error.empty()) {
      ADD_FAILURE() << what << "\n  output " << o << ": " << error;
      return;
    }
  }
}

}  // namespace lathe
