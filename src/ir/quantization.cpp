// SPDX-License-Identifier: Apache-2.0
#include "ir/quantization.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace lathe {
namespace {

std::string text_of(float value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

template <class T, class F>
std::string list_text(const std::vector<T>& items, const F& text) {
  std::string all = "[";
  for (size_t i = 0; i < items.size(); ++i) all += (i ? ", " : "") + text(items[i]);
  return all + "]";
}

// Calls f(element, index of the axis) for all elements.
template <class F>
void each(const Extents& extents, const Quantization& q, const F& f) {
  const auto total = static_cast<size_t>(element_count(extents));
  if (q.is_per_tensor()) {
    for (size_t i = 0; i < total; ++i) f(i, size_t{0});
    return;
  }
  size_t inner = 1;
  const auto axis = static_cast<size_t>(q.axis);
  for (size_t d = axis + 1; d < extents.size(); ++d) inner *= static_cast<size_t>(extents[d]);
  for (size_t i = 0; i < total; ++i) f(i, i / inner % static_cast<size_t>(extents[axis]));
}

template <class T>
void quantize_into(std::span<T> out, std::span<const float> x, const Extents& extents,
                   const Quantization& q) {
  const auto low = static_cast<double>(lowest_quantum(q.dtype)),
             high = static_cast<double>(highest_quantum(q.dtype));
  each(extents, q, [&](size_t i, size_t at) {
    const double steps = std::nearbyint(static_cast<double>(x[i] / q.scale(at))) + q.zero(at);
    out[i] = static_cast<T>(std::isnan(steps) ? q.zero(at) : std::clamp(steps, low, high));
  });
}

template <class T>
void dequantize_into(std::span<float> out, std::span<const T> x, const Extents& extents,
                     const Quantization& q) {
  each(extents, q, [&](size_t i, size_t at) {
    out[i] = static_cast<float>(static_cast<int32_t>(x[i]) - q.zero(at)) * q.scale(at);
  });
}

}  // namespace

int32_t lowest_quantum(DType dtype) {
  return dtype == DType::Int8 ? -128 : 0;
}
int32_t highest_quantum(DType dtype) {
  return dtype == DType::Int8 ? 127 : 255;
}

std::string quantization_error(const Quantization& q, const Shape& shape) {
  if (q.dtype != DType::Int8 && q.dtype != DType::UInt8)
    return "values are quantised to int8 or uint8, not to " + std::string(dtype_name(q.dtype));
  if (q.scales.empty() || q.scales.size() != q.zeros.size()) return "scales and zero points differ in number";
  if (q.axis < -1 || q.axis >= static_cast<int64_t>(shape.size()))
    return "the quantisation axis does not exist";
  if (q.is_per_tensor()
          ? q.scales.size() != 1
          : !shape[static_cast<size_t>(q.axis)].is_constant(static_cast<int64_t>(q.scales.size())))
    return "the number of scales is not that of what they belong to";
  for (const float scale : q.scales)
    if (!(scale >= std::numeric_limits<float>::min() && scale <= 0x1p100f))
      return "a scale is not a positive normal number";
  for (const int32_t zero : q.zeros)
    if (zero < lowest_quantum(q.dtype) || zero > highest_quantum(q.dtype))
      return "a zero point is not a number of " + std::string(dtype_name(q.dtype));
  return {};
}

std::string to_string(const Quantization& q) {
  std::string text = std::string(dtype_name(q.dtype)) + " scale " + list_text(q.scales, text_of) + " zero " +
                     list_text(q.zeros, [](int32_t zero) { return std::to_string(zero); });
  if (!q.is_per_tensor()) text += " axis " + std::to_string(q.axis);
  return text;
}

Tensor quantize(const Tensor& tensor, const Quantization& q) {
  Tensor result = Tensor::allocate(q.dtype, tensor.extents());
  if (q.dtype == DType::Int8)
    quantize_into(result.mutable_data<int8_t>(), tensor.data<float>(), tensor.extents(), q);
  else
    quantize_into(result.mutable_data<uint8_t>(), tensor.data<float>(), tensor.extents(), q);
  return result;
}

Tensor dequantize(const Tensor& tensor, const Quantization& q) {
  check(tensor.dtype() == q.dtype, "dequantize: another type than the grid's");
  Tensor result = Tensor::allocate(DType::Float32, tensor.extents());
  if (q.dtype == DType::Int8)
    dequantize_into(result.mutable_data<float>(), tensor.data<int8_t>(), tensor.extents(), q);
  else
    dequantize_into(result.mutable_data<float>(), tensor.data<uint8_t>(), tensor.extents(), q);
  return result;
}

}  // namespace lathe
