// SPDX-License-Identifier: Apache-2.0
#include "backend/check/grid_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "backend/check/layer_case.h"
#include "backend/integer_operands.h"
#include "base/floats.h"
#include "ir/e4m3_step.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "ops/build.h"
#include "ops/interpreter.h"

namespace lathe {
namespace {

// Calls f(logical index, stored index) for all elements of a linear or channels-last tensor.
template <class F>
void each_place(const Extents& extents, const Format& format, const F& f) {
  const int64_t total = element_count(extents);
  int64_t spatial = 1, channels = 1;
  if (!format.is_linear()) {
    channels = extents[1];
    for (size_t d = 2; d < extents.size(); ++d) spatial *= extents[d];
  }
  for (int64_t i = 0; i < total; ++i) {
    const int64_t s = i % spatial, c = i / spatial % channels, n = i / spatial / channels;
    f(i, format.is_linear() ? i : (n * spatial + s) * channels + c);
  }
}

std::vector<std::byte> stored(const Tensor& tensor, const Format& format) {
  std::vector<std::byte> bytes(tensor.bytes().size());
  const auto size = static_cast<size_t>(dtype_bytes(tensor.dtype(), 1));
  each_place(tensor.extents(), format, [&](int64_t i, int64_t at) {
    std::memcpy(bytes.data() + static_cast<size_t>(at) * size,
                tensor.bytes().data() + static_cast<size_t>(i) * size, size);
  });
  return bytes;
}

Tensor loaded(const std::byte* bytes, DType dtype, const Extents& extents, const Format& format) {
  Tensor tensor = Tensor::allocate(dtype, extents);
  const auto size = static_cast<size_t>(dtype_bytes(dtype, 1));
  each_place(extents, format, [&](int64_t i, int64_t at) {
    std::memcpy(tensor.mutable_bytes().data() + static_cast<size_t>(i) * size,
                bytes + static_cast<size_t>(at) * size, size);
  });
  return tensor;
}

Tensor random_numbers(const Value& value, std::mt19937& random) {
  const Extents extents = to_extents(value.shape);
  std::vector<double> values(static_cast<size_t>(element_count(extents)));
  if (value.quantization && value.quantization->has_floats()) {
    // All magnitudes, the large ones as often as the small ones.
    for (double& v : values) {
      const auto bits = static_cast<uint8_t>(random());
      v = static_cast<double>(fp8_to_float((bits & 0x7f) == 0x7f ? 0 : bits, Fp8Kind::E4M3FN));
    }
    return dequantize(Tensor::from_doubles(DType::Float8E4M3FN, extents, values), *value.quantization);
  }
  for (double& v : values) v = static_cast<double>(random() % 256);
  if (value.quantization)
    return dequantize(Tensor::from_doubles(DType::UInt8, extents, values), *value.quantization);
  for (double& v : values) v = (v - 128) / 32;
  return Tensor::from_doubles(value.dtype, extents, values);
}

// From one number to the next around x, where the layer's program rounds in its last step.
double step_at(const Node& node, double x) {
  const auto* chain = std::get_if<PointwiseChain>(&node.op);
  const PointwiseProgram& program = chain ? chain->program : node.epilogue;
  if (program.empty()) return 0;
  const auto scale = static_cast<double>(program.steps.back().alpha);
  if (program.steps.back().code == PointwiseCode::RoundToE4M3) return scale * e4m3_step(x / scale);
  return program.steps.back().code == PointwiseCode::RoundTo ? scale : 0;
}

}  // namespace

GridCase::GridCase(const std::string& graph, std::vector<DType> allowed_types) : graph_(parse_graph(graph)) {
  verify_graph(graph_);
  round_constants();
  GraphEditor(graph_).set_allowed_types(graph_.order()[0], std::move(allowed_types));
  std::mt19937 random(7);
  for (const ValueId id : node().inputs)
    numbers_.push_back(id == kNoValue || graph_.value(id).is_constant()
                           ? Tensor()
                           : random_numbers(graph_.value(id), random));
}

Extents GridCase::extents(ValueId id) const {
  return id == kNoValue ? Extents() : to_extents(graph_.value(id).shape);
}

Tensor GridCase::operand(const Tactic& tactic, size_t i) const {
  const DType type = tactic.inputs[i].dtype;
  if (!numbers_[i] || type == numbers_[i].dtype()) return numbers_[i];
  const std::optional<Quantization>& grid = graph_.value(node().inputs[i]).quantization;
  if (grid && type == grid->dtype) return quantize(numbers_[i], *grid);
  return Tensor::from_doubles(type, numbers_[i].extents(), numbers_[i].to_doubles());
}

std::vector<std::byte> GridCase::stored_operand(const Tactic& tactic, size_t i) const {
  if (tactic.inputs[i].dtype == DType::Undefined) return {};
  const Value& value = graph_.value(node().inputs[i]);
  return stored(value.is_constant() ? value.constant : operand(tactic, i), tactic.inputs[i].format);
}

Tensor GridCase::expected(const Tactic& tactic) const {
  Graph graph = graph_;
  GraphEditor editor(graph);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < node().inputs.size(); ++i) {
    const ValueId id = node().inputs[i];
    const bool data = id != kNoValue && !graph_.value(id).is_constant();
    if (data) editor.set_type(id, tactic.inputs[i].dtype, tactic.inputs[i].format);
    inputs.push_back(data || id == kNoValue ? operand(tactic, i) : graph_.value(id).constant);
  }
  editor.set_type(node().outputs[0], tactic.outputs[0].dtype, tactic.outputs[0].format);
  return interpret_node(graph, graph.node(graph.order()[0]), inputs, {})[0];
}

bool GridCase::stores_integers(const Tactic& tactic) const {
  const auto is_integer = [&](ValueId id, const TensorType& type) {
    if (id == kNoValue || !graph_.value(id).quantization) return false;
    return type.dtype == graph_.value(id).quantization->dtype ||
           (graph_.value(id).is_constant() && type.dtype == DType::Undefined);
  };
  bool any = is_integer(node().outputs[0], tactic.outputs[0]);
  for (size_t i = 0; i < node().inputs.size(); ++i)
    any = any || is_integer(node().inputs[i], tactic.inputs[i]);
  return any;
}

bool GridCase::stores_small_floats(const Tactic& tactic) {
  const auto is_small = [](const TensorType& type) { return type.dtype == DType::Float8E4M3FN; };
  return std::any_of(tactic.inputs.begin(), tactic.inputs.end(), is_small) ||
         std::any_of(tactic.outputs.begin(), tactic.outputs.end(), is_small);
}

// Random weights are on their grid afterwards. (Those of blocks of four bits have no type to come back from.)
void GridCase::round_constants() {
  GraphEditor editor(graph_);
  for (const ValueId input : node().inputs) {
    if (input == kNoValue || !graph_.value(input).is_constant()) continue;
    const Value value = graph_.value(input);
    if (!value.quantization) continue;
    Quantization grid = *value.quantization;
    const Tensor integers = quantize(value.constant, grid);
    grid.dtype = integers.dtype();
    editor.set_constant(input, dequantize(integers, grid));
    editor.set_quantization(input, value.quantization);
  }
}

void expect_on_grid(const GridCase& layer, const Tactic& tactic, const std::byte* result,
                    const Tensor& expected, const std::string& name, SmallFloatSums sums) {
  const Tensor got = loaded(result, expected.dtype(), expected.extents(), tactic.outputs[0].format);
  const std::vector<double> a = got.to_doubles(), b = expected.to_doubles();
  double largest = 0;
  for (const double x : b) largest = std::max(largest, std::abs(x));
  const bool bytes = got.dtype() == DType::UInt8, floats8 = got.dtype() == DType::Float8E4M3FN;
  const Op& op = layer.node().op;
  const bool cut = sums == SmallFloatSums::Cut && tactic.inputs[0].dtype == DType::Float8E4M3FN &&
                   (std::holds_alternative<Conv>(op) || std::holds_alternative<MatMul>(op));
  // A sum may lose 2^-13 of its largest part after every 32 terms.
  const double rounding = (cut ? 4e-3 : bytes || floats8 ? 0 : 2e-6) * largest;
  // The oracle rounds in front of an epilogue, too.
  const double roundings = layer.node().epilogue.empty() ? 1 : 2;
  int64_t steps = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double step = bytes     ? 1
                        : floats8 ? e4m3_step(std::max(std::abs(a[i]), std::abs(b[i])))
                                  : step_at(layer.node(), std::max(std::abs(a[i]), std::abs(b[i])));
    const double difference = std::abs(a[i] - b[i]),
                 own = rounding + roundings * rounding_of(got.dtype()) * std::abs(b[i]);
    ASSERT_LE(difference, step + own) << name << ": element " << i << " is " << a[i] << ", not " << b[i];
    steps += difference > own;
  }
  const bool halves = std::any_of(tactic.inputs.begin(), tactic.inputs.end(),
                                  [](const TensorType& type) { return rounding_of(type.dtype) > 0; });
  EXPECT_LE(steps, 1 + got.size() / (cut ? 10 : halves ? 40 : 200)) << name << ": so many differ by a step";
}

std::string repeated_list(int64_t count, const std::string& item) {
  std::string text = "[";
  for (int64_t i = 0; i < count; ++i) text += (i ? ", " : "") + item;
  return text + "]";
}

}  // namespace lathe
