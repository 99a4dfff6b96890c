// SPDX-License-Identifier: Apache-2.0
//
// The extents that Resize gives. A float is a fraction m / 2^e, so floor(dim * scale) is floor_div(dim * m,
// 2^e) without any rounding, for symbolic dims too.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

// Positions in the input of the entries of scales or sizes.
std::vector<size_t> resized_axes(const Resize& op, size_t rank, size_t entries, std::string_view what) {
  std::vector<size_t> axes;
  if (op.axes.empty()) {
    for (size_t d = 0; d < rank; ++d) axes.push_back(d);
  }
  for (const int64_t axis : op.axes) {
    axes.push_back(static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(rank), "Resize's axes")));
    if (std::count(axes.begin(), axes.end(), axes.back()) > 1)
      throw_input_error("Resize's axes name a dim twice");
  }
  if (axes.size() != entries) {
    throw_input_error("Resize needs one of its " + std::string(what) + " per resized dim: " +
                      std::to_string(axes.size()) + " expected, " + std::to_string(entries) + " given");
  }
  return axes;
}

Dim scaled_dim(const Dim& dim, float scale) {
  int exponent = 0;
  const float fraction = std::frexp(scale, &exponent);  // scale = fraction * 2^exponent, fraction in [0.5, 1)
  auto numerator = static_cast<int64_t>(std::ldexp(fraction, 24));
  exponent -= 24;
  while (numerator % 2 == 0 && exponent < 0) {
    numerator /= 2;
    ++exponent;
  }
  constexpr int kMaxShift = 40;
  if (exponent > kMaxShift) throw_input_error("Resize: the scale " + std::to_string(scale) + " is too large");
  if (exponent >= 0) return dim * Dim(numerator << exponent);
  if (exponent < -62) return 0;  // below 2^-38: no dim is large enough to leave anything
  return floor_div(dim * Dim(numerator), Dim(int64_t{1} << -exponent));
}

int64_t to_size(double size) {
  if (!(size < 0x1p63)) throw_input_error("Resize: a size of " + std::to_string(size) + " is too large");
  return static_cast<int64_t>(size);
}

}  // namespace

Shape resize_shape(const Resize& op, const Shape& input, std::span<const float> scales) {
  Shape result = input;
  const std::vector<size_t> axes = resized_axes(op, input.size(), scales.size(), "scales");
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(scales[i] > 0) || std::isinf(scales[i])) {
      throw_input_error("Resize: the scale " + std::to_string(scales[i]) + " is not a positive number");
    }
    result[axes[i]] = scaled_dim(input[axes[i]], scales[i]);
  }
  return result;
}

std::optional<Shape> resize_shape_for_sizes(const Resize& op, const Shape& input, const Shape& sizes) {
  Shape result = input;
  const std::vector<size_t> axes = resized_axes(op, input.size(), sizes.size(), "sizes");
  for (const Dim& size : sizes) {
    if (size.is_constant() && size.value() < 0)
      throw_input_error("Resize: the size " + size.to_string() + " is negative");
  }
  if (op.aspect == AspectPolicy::Stretch) {
    for (size_t i = 0; i < axes.size(); ++i) result[axes[i]] = sizes[i];
    return result;
  }
  double scale = op.aspect == AspectPolicy::NotLarger ? INFINITY : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim& dim = input[axes[i]];
    if (!dim.is_constant() || !sizes[i].is_constant()) return std::nullopt;
    if (dim.value() == 0) throw_input_error("Resize: a dim of 0 has no aspect ratio to keep");
    const double ratio = static_cast<double>(sizes[i].value()) / static_cast<double>(dim.value());
    scale = op.aspect == AspectPolicy::NotLarger ? std::min(scale, ratio) : std::max(scale, ratio);
  }
  for (const size_t axis : axes) {  // half up
    result[axis] = to_size(std::floor(scale * static_cast<double>(input[axis].value()) + 0.5));
  }
  return result;
}

}  // namespace lathe
