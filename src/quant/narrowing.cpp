// SPDX-License-Identifier: Apache-2.0
#include "quant/narrowing.h"

#include <algorithm>
#include <cmath>

#include "base/floats.h"

namespace lathe {

double largest_finite(DType narrow) {
  return narrow == DType::Float16 ? 65504 : std::ldexp(2 - std::ldexp(1, -7), 127);
}

double unit_roundoff(DType narrow) {
  return std::ldexp(1, narrow == DType::Float16 ? -11 : -8);
}

float rounded_to(DType narrow, float value) {
  return narrow == DType::Float16 ? fp16_to_float(float_to_fp16(value)) : bf16_to_float(float_to_bf16(value));
}

Tensor rounded_to(DType narrow, const Tensor& tensor) {
  Tensor result = Tensor::allocate(DType::Float32, tensor.extents());
  const auto from = tensor.data<float>();
  std::transform(from.begin(), from.end(), result.mutable_data<float>().begin(),
                 [&](float x) { return rounded_to(narrow, x); });
  return result;
}

void NarrowingObserver::add(std::span<const float> elements) {
  for (const float x : elements) {
    if (!std::isfinite(x)) continue;
    const auto value = static_cast<double>(x);
    largest_ = std::max(largest_, std::abs(value));
    const float rounded = rounded_to(narrow_, x);
    if (!std::isfinite(rounded)) continue;
    const double lost = value - static_cast<double>(rounded);
    squares_ += value * value;
    lost_squares_ += lost * lost;
  }
}

double NarrowingObserver::relative_loss() const {
  return squares_ > 0 ? std::sqrt(lost_squares_ / squares_) : 0;
}

}  // namespace lathe
