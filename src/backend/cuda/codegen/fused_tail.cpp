// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/codegen/fused_tail.h"

#include <cstring>

#include "backend/cuda/codegen/own_tactic.h"
#include "base/error.h"
#include "base/floats.h"

namespace lathe::cuda {
namespace {

// One value for each index of `axis`, or one for all.
bool is_channel_vector(const Value& value, const Shape& whole, size_t axis) {
  if (!value.is_constant() || !is_float(value.dtype)) return false;
  if (value.constant.size() == 1) return true;
  const size_t missing = whole.size() - value.shape.size();
  for (size_t i = 0; i < value.shape.size(); ++i) {
    const bool one = value.shape[i].is_constant(1);
    if (i + missing == axis ? !(value.shape[i] == whole[axis]) : !one) return false;
  }
  return axis >= missing;
}

}  // namespace

std::vector<DType> library_types(const LayerQuery& query) {
  std::vector<DType> types = allowed_types_first(query);
  std::erase_if(types, [](DType type) { return !is_kernel_float(type); });
  return types;
}

std::optional<FusedTail> fused_tail(const LayerQuery& query, size_t channel_axis) {
  const Node& node = query.layer();
  const Shape& whole = query.graph.value(node.outputs[0]).shape;
  FusedTail tail;
  int current = 0;  // the operand number of the value so far
  for (size_t i = 0; i < node.epilogue.steps.size(); ++i) {
    const PointwiseStep& step = node.epilogue.steps[i];
    if (tail.activation) return std::nullopt;  // nothing comes behind it
    if (step.operands.size() == 1 && step.operands[0] == current) {
      tail.activation = step;
    } else if (step.code == PointwiseCode::Add && step.operands.size() == 2) {
      const int other = step.operands[0] == current ? step.operands[1] : step.operands[0];
      const int value = step.operands[0] == current ? step.operands[0] : step.operands[1];
      if (value != current || other == 0 || other >= node.epilogue.input_count) return std::nullopt;
      const size_t input = node.op_input_count() + static_cast<size_t>(other) - 1;
      const Value& operand = query.graph.value(node.inputs[input]);
      if (!tail.bias && is_channel_vector(operand, whole, channel_axis))
        tail.bias = input;
      else if (!tail.residual && !operand.is_constant() && operand.shape == whole && is_float(operand.dtype))
        tail.residual = input;
      else
        return std::nullopt;
    } else {
      return std::nullopt;
    }
    current = node.epilogue.input_count + static_cast<int>(i);
  }
  return tail;
}

std::vector<std::byte> convert_floats(const Tensor& constant, DType dtype, std::span<const int64_t> extents,
                                      std::span<const int64_t> strides) {
  std::vector<float> wide;  // unless the constant is FP32 already
  std::span<const float> values;
  if (constant.dtype() == DType::Float32) {
    values = constant.data<float>();
  } else {
    const std::vector<double> doubles = constant.to_doubles();
    wide.assign(doubles.begin(), doubles.end());
    values = wide;
  }
  check(extents.size() == 3 && extents[0] * extents[1] * extents[2] == static_cast<int64_t>(values.size()),
        "a constant of another size than its new order");
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(dtype_bytes(dtype, 1)));
  std::byte* out = bytes.data();
  for (int64_t i = 0; i < extents[0]; ++i)
    for (int64_t j = 0; j < extents[1]; ++j) {
      const float* row = values.data() + i * strides[0] + j * strides[1];
      for (int64_t k = 0; k < extents[2]; ++k) {
        const float value = row[k * strides[2]];
        if (dtype == DType::Float32) {
          std::memcpy(out, &value, sizeof value);
          out += sizeof value;
        } else {
          const uint16_t bits = dtype == DType::Float16 ? float_to_fp16(value) : float_to_bf16(value);
          std::memcpy(out, &bits, sizeof bits);
          out += sizeof bits;
        }
      }
    }
  return bytes;
}

std::vector<std::byte> convert_floats(const Tensor& constant, DType dtype) {
  if (constant.dtype() == dtype) return {constant.bytes().begin(), constant.bytes().end()};
  const int64_t extents[] = {1, 1, constant.size()}, strides[] = {0, 0, 1};
  return convert_floats(constant, dtype, extents, strides);
}

std::vector<std::byte> channel_vector(const Tensor& constant, int64_t channels, DType dtype) {
  const std::vector<std::byte> bytes = convert_floats(constant, dtype);
  if (constant.size() != 1) return bytes;
  std::vector<std::byte> repeated;
  for (int64_t i = 0; i < channels; ++i) repeated.insert(repeated.end(), bytes.begin(), bytes.end());
  return repeated;
}

}  // namespace lathe::cuda
