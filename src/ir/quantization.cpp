// SPDX-License-Identifier: Apache-2.0
#include "ir/quantization.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/floats.h"
#include "ir/block_grid.h"
#include "ir/list_text.h"

namespace lathe {
namespace {

std::string text_of(float value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

// How the elements of a tensor lie around the grid's axis.
struct AxisWalk {
  size_t extent = 1, inner = 1;
  size_t blocks = 0, block = 0;  // 0: none
};

AxisWalk walk_of(const Extents& extents, int64_t axis, size_t scales) {
  AxisWalk walk;
  walk.extent = static_cast<size_t>(extents[static_cast<size_t>(axis)]);
  for (auto d = static_cast<size_t>(axis) + 1; d < extents.size(); ++d)
    walk.inner *= static_cast<size_t>(extents[d]);
  if (walk.extent != scales) {
    walk.blocks = scales * walk.extent / std::max<size_t>(1, static_cast<size_t>(element_count(extents)));
    walk.block = walk.extent / std::max<size_t>(1, walk.blocks);
  }
  return walk;
}

// Calls f(element, number of its scale) for all elements.
template <class F>
void each(const Extents& extents, const Quantization& q, const F& f) {
  const auto total = static_cast<size_t>(element_count(extents));
  if (q.is_per_tensor()) {
    for (size_t i = 0; i < total; ++i) f(i, size_t{0});
    return;
  }
  const AxisWalk w = walk_of(extents, q.axis, q.scales.size());
  size_t i = 0;
  for (size_t outer = 0; i < total; ++outer)
    for (size_t index = 0; index < w.extent; ++index) {
      // Without blocks the index is the number; with them, numbers lie as the elements of a shorter axis.
      const size_t first = w.block == 0 ? index : (outer * w.blocks + index / w.block) * w.inner;
      for (size_t inner = 0; inner < w.inner; ++inner) f(i++, w.block == 0 ? first : first + inner);
    }
}

template <class T>
void quantize_into(std::span<T> out, std::span<const float> x, const Extents& extents,
                   const Quantization& q) {
  const auto low = static_cast<float>(lowest_quantum(q.dtype)),
             high = static_cast<float>(highest_quantum(q.dtype));
  // Below 2^22 a sum with 1.5 * 2^23 has no digits behind the point left; what is larger is clamped anyway.
  constexpr float kRounder = 12582912, kFar = 0x1p20f;
  each(extents, q, [&](size_t i, size_t at) {
    const float steps = x[i] / q.scale(at);
    const float whole =
        (std::clamp(steps, -kFar, kFar) + kRounder) - kRounder + static_cast<float>(q.zero(at));
    out[i] =
        static_cast<T>(std::isnan(steps) ? static_cast<float>(q.zero(at)) : std::clamp(whole, low, high));
  });
}

void quantize_into_floats(std::span<std::byte> out, std::span<const float> x, const Extents& extents,
                          const Quantization& q) {
  each(extents, q, [&](size_t i, size_t at) {
    out[i] = static_cast<std::byte>(float_to_fp8(x[i] / q.scale(at), Fp8Kind::E4M3FN));
  });
}

void dequantize_floats(std::span<float> out, std::span<const std::byte> x, const Extents& extents,
                       const Quantization& q) {
  each(extents, q, [&](size_t i, size_t at) {
    out[i] = fp8_to_float(static_cast<uint8_t>(x[i]), Fp8Kind::E4M3FN) * q.scale(at);
  });
}

std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> floats(static_cast<size_t>(tensor.size()));
  if (tensor.dtype() == DType::Float16) {
    const auto* halves = static_cast<const uint16_t*>(static_cast<const void*>(tensor.bytes().data()));
    std::transform(halves, halves + floats.size(), floats.begin(), fp16_to_float);
  } else {
    const std::vector<double> numbers = tensor.to_doubles();
    floats.assign(numbers.begin(), numbers.end());
  }
  return floats;
}

template <class T>
void dequantize_into(std::span<float> out, std::span<const T> x, const Extents& extents,
                     const Quantization& q) {
  each(extents, q, [&](size_t i, size_t at) {
    out[i] = static_cast<float>(static_cast<int32_t>(x[i]) - q.zero(at)) * q.scale(at);
  });
}

bool is_four_bits(DType dtype) {
  return dtype == DType::Int4 || dtype == DType::UInt4;
}

bool has_as_many_scales(const Quantization& q, const Shape& shape) {
  const auto count = static_cast<int64_t>(q.scales.size());
  if (q.is_per_tensor()) return count == 1;
  return shape[static_cast<size_t>(q.axis)].is_constant(count) || has_blocks(q, shape);
}

}  // namespace

bool same_kind(const std::optional<Quantization>& a, const std::optional<Quantization>& b) {
  return a.has_value() == b.has_value() && (!a || a->dtype == b->dtype);
}

int32_t lowest_quantum(DType dtype) {
  if (dtype == DType::Int4) return -8;
  return dtype == DType::Int8 ? -128 : 0;
}
int32_t highest_quantum(DType dtype) {
  if (dtype == DType::Int4 || dtype == DType::UInt4) return dtype == DType::Int4 ? 7 : 15;
  return dtype == DType::Int8 ? 127 : 255;
}

std::string quantization_error(const Quantization& q, const Shape& shape) {
  const bool blocks = has_blocks(q, shape);
  if (q.dtype != DType::Int8 && q.dtype != DType::UInt8 && !q.has_floats() &&
      !(blocks && is_four_bits(q.dtype)))
    return "values are quantised to int8, uint8 or float8e4m3fn, not to " + std::string(dtype_name(q.dtype));
  if (q.scales.size() != q.zeros.size() || (q.scales.empty() && !blocks))
    return "scales and zero points differ in number";
  if (q.axis < -1 || q.axis >= static_cast<int64_t>(shape.size()))
    return "the quantisation axis does not exist";
  if (!has_as_many_scales(q, shape)) return "the number of scales is not that of what they belong to";
  for (const float scale : q.scales) {
    const float size = blocks ? std::abs(scale) : scale;
    if (!(size >= std::numeric_limits<float>::min() && size <= 0x1p100f))
      return "a scale is not a positive normal number";
  }
  if (q.has_floats())
    return std::all_of(q.zeros.begin(), q.zeros.end(), [](int32_t zero) { return zero == 0; })
               ? ""
               : "a grid of float8e4m3fn has no zero point but 0";
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

bool has_blocks(const Quantization& q, const Shape& shape) {
  return block_of(q, shape) > 0 || (q.scales.empty() && q.zeros.empty() && q.axis >= 0 && is_static(shape) &&
                                    q.axis < static_cast<int64_t>(shape.size()));
}

int64_t block_of(const Quantization& q, const Shape& shape) {
  const auto count = static_cast<int64_t>(q.scales.size());
  if (q.axis < 0 || q.axis >= static_cast<int64_t>(shape.size()) || count == 0 || !is_static(shape)) return 0;
  const int64_t extent = shape[static_cast<size_t>(q.axis)].value(), all = element_count(to_extents(shape));
  if (count == extent || all == 0 || all % count != 0) return 0;
  const int64_t block = all / count;
  return extent % block == 0 ? block : 0;
}

Quantization without_numbers(Quantization q, const Shape& shape) {
  if (!has_blocks(q, shape)) return q;
  q.scales.clear();
  q.zeros.clear();
  return q;
}

Quantization transposed(const Quantization& q, const Shape& shape, const std::vector<int64_t>& perm) {
  Quantization result = q;
  if (q.is_per_tensor()) return result;
  result.axis = std::find(perm.begin(), perm.end(), q.axis) - perm.begin();
  const int64_t block = block_of(q, shape);
  if (block == 0) return result;
  Extents from = to_extents(shape), strides(from.size(), 1);
  from[static_cast<size_t>(q.axis)] /= block;
  for (size_t d = from.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * from[d + 1];
  for (size_t i = 0; i < q.scales.size(); ++i) {
    size_t rest = i, at = 0;
    for (size_t d = perm.size(); d-- > 0;) {
      const auto axis = static_cast<size_t>(perm[d]), extent = static_cast<size_t>(from[axis]);
      at += rest % extent * static_cast<size_t>(strides[axis]);
      rest /= extent;
    }
    result.scales[i] = q.scales[at];
    result.zeros[i] = q.zeros[at];
  }
  return result;
}

std::optional<Quantization> sliced(const Quantization& q, const Shape& shape, int64_t axis, int64_t start,
                                   int64_t length) {
  const int64_t block = block_of(q, shape);
  if (q.is_per_tensor() || (block == 0 && q.axis != axis)) return q;
  if (block > 0 && q.axis == axis) return std::nullopt;
  int64_t inner = 1, extent = shape[static_cast<size_t>(axis)].value();  // of the scales
  for (size_t d = static_cast<size_t>(axis) + 1; block > 0 && d < shape.size(); ++d)
    inner *= shape[d].value() / (static_cast<int64_t>(d) == q.axis ? block : 1);
  Quantization result = q;
  result.scales.clear();
  result.zeros.clear();
  for (size_t i = 0; i < q.scales.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / inner % extent;
    if (at < start || at >= start + length) continue;
    result.scales.push_back(q.scales[i]);
    result.zeros.push_back(q.zeros[i]);
  }
  Shape part = shape;
  part[static_cast<size_t>(axis)] = Dim(length);
  return quantization_error(result, part).empty() ? std::optional(result) : std::nullopt;
}

Tensor quantize(const Tensor& tensor, const Quantization& q) {
  if (tensor.dtype() != DType::Float32)
    return quantize(Tensor::from<float>(tensor.extents(), floats_of(tensor)), q);
  if (q.has_floats()) {
    Tensor result = Tensor::allocate(q.dtype, tensor.extents());
    quantize_into_floats(result.mutable_bytes(), tensor.data<float>(), tensor.extents(), q);
    return result;
  }
  const bool is_signed = q.dtype == DType::Int8 || q.dtype == DType::Int4;
  Tensor result = Tensor::allocate(is_signed ? DType::Int8 : DType::UInt8, tensor.extents());
  if (is_signed)
    quantize_into(result.mutable_data<int8_t>(), tensor.data<float>(), tensor.extents(), q);
  else
    quantize_into(result.mutable_data<uint8_t>(), tensor.data<float>(), tensor.extents(), q);
  return result;
}

Tensor dequantize(const Tensor& tensor, const Quantization& q) {
  check(tensor.dtype() == q.dtype, "dequantize: another type than the grid's");
  Tensor result = Tensor::allocate(DType::Float32, tensor.extents());
  if (q.has_floats())
    dequantize_floats(result.mutable_data<float>(), tensor.bytes(), tensor.extents(), q);
  else if (q.dtype == DType::Int8)
    dequantize_into(result.mutable_data<float>(), tensor.data<int8_t>(), tensor.extents(), q);
  else
    dequantize_into(result.mutable_data<float>(), tensor.data<uint8_t>(), tensor.extents(), q);
  return result;
}

}  // namespace lathe
