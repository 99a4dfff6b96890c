// SPDX-License-Identifier: Apache-2.0
//
// DeformConv: a convolution whose taps read x at places of their own, tap + offset, by bilinear interpolation
// with zeros around the image, each times a factor of the mask. The values of all taps of a position are
// gathered first, then multiplied with the filters of their group.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/window.h"

namespace lathe {
namespace {

enum DeformConvInput : size_t { kImages, kFilters, kOffsets, kFilterBias, kMasks };

WindowSpec window_of(const DeformConv& op) {
  return {op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end};
}

void check_groups(const DeformConv& op, const Shape& x, const Shape& w) {
  const auto check_divides = [](int64_t parts, const Dim& whole, std::string_view what) {
    if (parts < 1 || (whole.is_constant() && whole.value() % parts != 0))
      throw_input_error(std::to_string(parts) + " groups do not divide the " + whole.to_string() + " " +
                        std::string(what));
  };
  check_divides(op.groups, x[1], "channels");
  check_divides(op.groups, w[0], "filters");
  check_divides(op.offset_groups, x[1], "channels");
}

std::vector<ResultInfo> infer_deform_conv(const DeformConv& op, const InferContext& context) {
  expect_rank(context, kImages, "x", 4);
  expect_rank(context, kFilters, "w", 4);
  const Value& x = context.input(kImages);
  const Shape& w = context.input(kFilters).shape;
  expect_real(context, kImages, "x");
  check_window(window_of(op), 2, "DeformConv");
  check_groups(op, x.shape, w);
  const Dim taps = Dim(op.kernel[0]) * op.kernel[1];
  expect_shape(context, kFilters, "w",
               {w[0], floor_div(x.shape[1], Dim(op.groups)), op.kernel[0], op.kernel[1]});
  const Shape plane = window_output(window_of(op), {x.shape[2], x.shape[3]});
  expect_shape(context, kOffsets, "the offset",
               {x.shape[0], taps * op.offset_groups * 2, plane[0], plane[1]});
  if (context.has(kFilterBias)) expect_shape(context, kFilterBias, "the bias", {w[0]});
  if (context.has(kMasks))
    expect_shape(context, kMasks, "the mask", {x.shape[0], taps * op.offset_groups, plane[0], plane[1]});
  return {{x.dtype, {x.shape[0], w[0], plane[0], plane[1]}}};
}

// x at a place between pixels; zero outside.
double sample(const double* plane, int64_t height, int64_t width, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width))) return 0;
  const double top = std::floor(y), left = std::floor(x);
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    const int64_t row = static_cast<int64_t>(top) + i / 2, column = static_cast<int64_t>(left) + i % 2;
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    const double weight = (i / 2 ? y - top : top + 1 - y) * (i % 2 ? x - left : left + 1 - x);
    sum += weight * plane[row * width + column];
  }
  return sum;
}

struct DeformConvOperands {
  std::vector<double> x, w, offset, bias, mask;
};

// What each channel and tap of one result position reads, times the mask.
void gather_taps(const DeformConv& op, const DeformConvOperands& data, const Extents& x, const Extents& y,
                 const std::vector<WindowAxis>& axes, int64_t position, std::vector<double>& values) {
  const int64_t area = y[2] * y[3], taps = op.kernel[0] * op.kernel[1];
  const int64_t item = position / area, at = position % area, plane = x[2] * x[3];
  const int64_t per_group = x[1] / op.offset_groups;
  for (int64_t c = 0; c < x[1]; ++c) {
    const int64_t first = (item * op.offset_groups + c / per_group) * taps;
    for (int64_t t = 0; t < taps; ++t) {
      const double* offset = data.offset.data() + (first + t) * 2 * area + at;
      const int64_t row =
          at / y[3] * axes[0].stride - axes[0].pad_begin + t / op.kernel[1] * axes[0].dilation;
      const int64_t column =
          at % y[3] * axes[1].stride - axes[1].pad_begin + t % op.kernel[1] * axes[1].dilation;
      const double value =
          sample(data.x.data() + (item * x[1] + c) * plane, x[2], x[3], static_cast<double>(row) + offset[0],
                 static_cast<double>(column) + offset[area]);
      const double factor = data.mask.empty() ? 1 : data.mask[static_cast<size_t>((first + t) * area + at)];
      values[static_cast<size_t>(c * taps + t)] = value * factor;
    }
  }
}

std::vector<Tensor> evaluate_deform_conv(const DeformConv& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_deform_conv);
  const Extents &x = context.input(kImages).extents(), &y = results[0].extents();
  if (results[0].size() == 0) return results;
  const auto read = [&](size_t i) {
    return context.has(i) ? context.input(i).to_doubles() : std::vector<double>();
  };
  const DeformConvOperands data{read(kImages), read(kFilters), read(kOffsets), read(kFilterBias),
                                read(kMasks)};
  const std::vector<WindowAxis> axes = resolve_window(window_of(op), {x[2], x[3]});
  const int64_t area = y[2] * y[3], row = x[1] / op.groups * op.kernel[0] * op.kernel[1];
  std::vector<double> out(static_cast<size_t>(results[0].size()));
  context.parallel_for(y[0] * area, 8, [&](int64_t begin, int64_t end) {
    std::vector<double> values(static_cast<size_t>(row * op.groups));
    for (int64_t i = begin; i < end; ++i) {
      gather_taps(op, data, x, y, axes, i, values);
      for (int64_t m = 0; m < y[1]; ++m) {
        const double* from = values.data() + m / (y[1] / op.groups) * row;
        double sum = data.bias.empty() ? 0 : data.bias[static_cast<size_t>(m)];
        for (int64_t k = 0; k < row; ++k) sum += from[k] * data.w[static_cast<size_t>(m * row + k)];
        out[static_cast<size_t>((i / area * y[1] + m) * area + i % area)] = sum;
      }
    }
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), out.data());
  return results;
}

double deform_conv_flops(const Op&, const CostContext& context) {
  const Extents& w = context.inputs[kFilters];
  const double terms = static_cast<double>(w[1] * w[2] * w[3]);
  return 2 * terms * static_cast<double>(element_count(context.outputs[0]));
}

}  // namespace

std::vector<OpDef> deform_conv_ops() {
  return {op_def<DeformConv, infer_deform_conv, evaluate_deform_conv>(deform_conv_flops)};
}

}  // namespace lathe
