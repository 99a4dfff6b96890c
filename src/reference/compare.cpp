// SPDX-License-Identifier: Apache-2.0
//
// Comparison of tensors, see compare.h.

#include "reference/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "ir/e4m3_step.h"
#include "ops/op_def.h"

namespace lathe {

namespace {

Extents index_of(int64_t element, const Extents& extents) {
  Extents index(extents.size());
  for (size_t d = extents.size(); d-- > 0;) {
    index[d] = element % extents[d];
    element /= extents[d];
  }
  return index;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// Collects sums over pairs of elements.
struct Accumulator {
  Comparison& out;
  double error_squares = 0, expected_squares = 0, actual_squares = 0, products = 0;
  double worst = -1;
  int64_t worst_element = -1;

  void note_worst(double error, int64_t element) {
    if (error <= worst) return;
    worst = error;
    worst_element = element;
  }

  void add(double actual, double expected, int64_t element, double relative_floor) {
    constexpr double kMismatch = std::numeric_limits<double>::infinity();
    if (std::isnan(actual) || std::isnan(expected)) {
      if (std::isnan(actual) != std::isnan(expected)) {
        ++out.nan_mismatches;
        note_worst(kMismatch, element);
      }
      return;
    }
    if (std::isinf(actual) || std::isinf(expected)) {
      if (actual != expected) {
        ++out.infinity_mismatches;
        note_worst(kMismatch, element);
      }
      return;
    }
    const double error = std::abs(actual - expected);
    note_worst(error, element);
    out.max_absolute = std::max(out.max_absolute, error);
    if (std::abs(expected) >= relative_floor && expected != 0) {
      out.max_relative = std::max(out.max_relative, error / std::abs(expected));
    }
    error_squares += error * error;
    expected_squares += expected * expected;
    actual_squares += actual * actual;
    products += actual * expected;
  }
};

double largest_finite(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Unit roundoff: half the distance from 1 to the next number.
double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::Float64:
      return 0x1p-53;
    case DType::Float32:
      return 0x1p-24;
    case DType::Float16:
      return 0x1p-11;
    case DType::BFloat16:
      return 0x1p-8;
    case DType::Float8E4M3FN:
    case DType::Float8E4M3FNUZ:
      return 0x1p-4;
    case DType::Float8E5M2:
    case DType::Float8E5M2FNUZ:
      return 0x1p-3;
    case DType::Float4E2M1:
      return 0x1p-2;
    case DType::Float8E8M0:
      return 0x1p-1;
    default:
      return 0;
  }
}

int64_t product_from(const Extents& extents, int64_t first) {
  int64_t result = 1;
  for (size_t i = static_cast<size_t>(first); i < extents.size(); ++i) result *= extents[i];
  return result;
}

// Terms that one element of the result sums, by operator; `first` and `second` are the extents of inputs 0
// and 1.
struct TermsPerElement {
  Extents first, second;
  std::span<const Extents> all;

  int64_t axis_extent(int64_t axis) const {
    return first.empty()
               ? 1
               : first[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(first.size()) : axis)];
  }
  // Of one step: the products with x and with h.
  int64_t recurrent_terms() const {
    constexpr size_t kHidden = 2;  // number of the input r
    return second.size() == 2 && all.size() > kHidden && all[kHidden].size() == 2
               ? second[1] + all[kHidden][1]
               : 1;
  }
  int64_t operator()(const Conv&) const { return product_from(second, 1); }
  int64_t operator()(const ConvTranspose&) const {
    return second.size() < 2 ? 1 : product_from(second, 2) * second[0];
  }
  int64_t operator()(const DepthwiseBlock&) const {  // of its parts together
    int64_t terms = 0;
    for (const size_t weights :
         {DepthwiseBlock::kExpand, DepthwiseBlock::kDepthwise, DepthwiseBlock::kProject})
      if (weights < all.size() && all[weights].size() == 4) terms += product_from(all[weights], 1);
    return terms;
  }
  int64_t operator()(const MatMul& op) const {
    if (first.empty()) return 1;
    return op.transpose_a && first.size() > 1 ? first[first.size() - 2] : first.back();
  }
  int64_t operator()(const FeedForward&) const {  // of both products
    return second.size() == 2 ? second[0] + second[1] : 1;
  }
  int64_t operator()(const Attention& op) const {  // width, then keys
    if (second.size() != 4) return 1;
    return second[3] + second[op.layout == AttentionLayout::BHSD ? 2 : 1];
  }
  int64_t operator()(const Pool& op) const { return product_from(op.kernel, 0); }
  int64_t operator()(const Reduce& op) const {
    if (!op.axes) return product_from(first, 0);
    int64_t terms = 1;
    for (int64_t axis : *op.axes) terms *= axis_extent(axis);
    return terms;
  }
  int64_t operator()(const SqueezeExcite&) const {  // the mean, then a product over the channels
    return product_from(first, 2) + product_from(second, 1);
  }
  int64_t operator()(const Softmax& op) const { return axis_extent(op.axis); }
  int64_t operator()(const LayerNorm& op) const {
    return product_from(first, op.axis < 0 ? op.axis + static_cast<int64_t>(first.size()) : op.axis);
  }
  int64_t operator()(const GroupNorm& op) const {
    if (first.size() < 2) return 1;
    return product_from(first, 2) * (op.groups > 0 ? first[1] / op.groups : 1);
  }
  int64_t operator()(const Lrn& op) const { return op.size; }
  int64_t operator()(const CumSum&) const { return product_from(first, 0); }
  int64_t operator()(const CumProd&) const { return product_from(first, 0); }
  int64_t operator()(const RNN&) const { return recurrent_terms(); }
  int64_t operator()(const GRU&) const { return recurrent_terms(); }
  int64_t operator()(const LSTM&) const { return recurrent_terms(); }
  int64_t operator()(const LinearAttention&) const {  // steps, then the width of a key
    return first.size() == 3 ? first[1] + first[2] : 1;
  }
  int64_t operator()(const DeformConv&) const { return product_from(second, 1); }
  int64_t operator()(const DFT&) const { return product_from(first, 0); }
  int64_t operator()(const STFT&) const { return product_from(first, 1); }
  template <class Other>
  int64_t operator()(const Other&) const {
    return 1;
  }
};

}  // namespace

bool Comparison::within(double relative_l2_limit) const {
  return !shapes_differ && nan_mismatches == 0 && infinity_mismatches == 0 &&
         relative_l2 <= relative_l2_limit;
}

std::string Comparison::to_string() const {
  if (shapes_differ) return "shape " + shape_text;
  std::string text = "relative L2 " + number(relative_l2) + ", max absolute " + number(max_absolute) +
                     ", max relative " + number(max_relative) + ", cosine " + number(cosine);
  if (nan_mismatches) text += ", " + std::to_string(nan_mismatches) + " NaN mismatches";
  if (infinity_mismatches) text += ", " + std::to_string(infinity_mismatches) + " infinity mismatches";
  if (elements > 0) {
    std::string index;
    for (int64_t i : worst_index) index += (index.empty() ? "" : ", ") + std::to_string(i);
    text += "; worst at [" + index + "]: " + number(worst_actual) + " instead of " + number(worst_expected);
  }
  return text;
}

Comparison compare(const Tensor& actual, const Tensor& expected) {
  Comparison result;
  if (actual.extents() != expected.extents()) {
    result.shapes_differ = true;
    result.shape_text = to_string(actual.extents()) + " instead of " + to_string(expected.extents());
    return result;
  }
  const std::vector<double> a = actual.to_doubles(), e = expected.to_doubles();
  result.elements = static_cast<int64_t>(a.size());
  if (a.empty()) return result;
  Accumulator sums{result};
  const double floor = largest_finite(e) * 1e-3;
  for (size_t i = 0; i < a.size(); ++i) sums.add(a[i], e[i], static_cast<int64_t>(i), floor);
  // Against an expected zero, the error itself is the measure.
  result.relative_l2 = sums.expected_squares > 0 ? std::sqrt(sums.error_squares / sums.expected_squares)
                                                 : std::sqrt(sums.error_squares);
  const double norms = std::sqrt(sums.actual_squares) * std::sqrt(sums.expected_squares);
  result.cosine = norms > 0 ? sums.products / norms : sums.actual_squares == sums.expected_squares ? 1 : 0;
  const int64_t worst = std::max<int64_t>(sums.worst_element, 0);
  result.worst_index = index_of(worst, actual.extents());
  result.worst_actual = a[static_cast<size_t>(worst)];
  result.worst_expected = e[static_cast<size_t>(worst)];
  return result;
}

double tolerance(DType dtype, int64_t reduction_length, double error_factor) {
  // Operands, result and a few roundings in between cost a constant; FP32 accumulation of n terms grows like
  // the square root of n for rounding errors of random sign. Narrow types accumulate in FP32, so their own
  // roundoff stays constant.
  const double own = 4 * unit_roundoff(dtype);
  const double accumulator = unit_roundoff(dtype == DType::Float64 ? DType::Float64 : DType::Float32);
  if (own == 0) return 0;
  return error_factor *
         (own + 2 * accumulator * std::sqrt(static_cast<double>(std::max<int64_t>(reduction_length, 1))));
}

double tolerance_on_grid(double before, const RoundingToGrid& grid) {
  if (!(grid.rms > 0) || grid.elements < 1) return before;
  double near = 2 * before * grid.rms * static_cast<double>(grid.elements);
  if (!grid.numbers.empty())
    near = static_cast<double>(std::count_if(grid.numbers.begin(), grid.numbers.end(), [&](double x) {
      const double to_middle = std::abs(std::abs(x - std::floor(x)) - 0.5);
      return to_middle <= before * std::max(grid.rms, std::abs(x));
    }));
  const double share =
      std::clamp(near, 1.0, static_cast<double>(grid.elements)) / static_cast<double>(grid.elements);
  return before + std::sqrt(share) / grid.rms;
}

double tolerance_on_e4m3(double before, std::span<const double> numbers, NumbersAre are) {
  const double most = static_cast<double>(kMostE4M3);
  double squares = 0;
  for (const double x : numbers) squares += std::pow(std::clamp(x, -most, most), 2);
  if (!(squares > 0)) return before;
  const double rms = std::sqrt(squares / static_cast<double>(numbers.size()));
  double off = 0, largest = 0;  // squares of steps
  for (const double number : numbers) {
    const double x = std::abs(std::clamp(number, -most, most)), step = e4m3_step(x), steps = x / step,
                 reach = before * std::max(rms, x) / step,
                 to_middle = std::abs(steps - std::floor(steps) - 0.5);
    const double share = are == NumbersAre::Rounded ? std::min(1.0, 2 * reach) : to_middle <= reach ? 1 : 0;
    off += share * step * step;
    largest = std::max(largest, step * step);
  }
  return before + std::sqrt(std::max(off, largest) / squares);
}

int64_t reduction_length(const Node& node, std::span<const Extents> inputs) {
  const auto input = [&](size_t i) { return i < inputs.size() ? inputs[i] : Extents{}; };
  return std::max<int64_t>(1, std::visit(TermsPerElement{input(0), input(1), inputs}, node.op));
}

}  // namespace lathe
