// SPDX-License-Identifier: Apache-2.0
//
// RoiAlign and MaxRoiPool: a fixed number of bins from each box of an image. RoiAlign interpolates at points
// inside a bin and takes their mean or largest; MaxRoiPool takes the largest whole pixel.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/roi_points.h"

namespace lathe {
namespace {

struct Image {
  const std::vector<double>& data;
  int64_t channels, height, width;
  const double* plane(int64_t image, int64_t channel) const {
    return data.data() + (image * channels + channel) * height * width;
  }
};

void check_output(int64_t height, int64_t width) {
  constexpr int64_t kMost = 1 << 20;
  if (height < 1 || width < 1 || height > kMost || width > kMost)
    throw_input_error("the result of a box is " + std::to_string(height) + "x" + std::to_string(width) +
                      ", expected at least 1x1 and at most " + std::to_string(kMost) + " in each dim");
}

// --- RoiAlign
std::vector<ResultInfo> infer_roi_align(const RoiAlign& op, const InferContext& context) {
  expect_rank(context, 0, "x", 4);
  expect_rank(context, 1, "the boxes", 2);
  const Dim rois = context.input(1).shape[0];
  expect_shape(context, 1, "the boxes", {rois, 4});
  expect_shape(context, 2, "the batch indices", {rois});
  expect_dtype(context, 2, "the batch indices", DType::Int64);
  check_output(op.output_height, op.output_width);
  if (op.sampling_ratio < 0 || op.sampling_ratio > 4096)
    throw_input_error("sampling_ratio is " + std::to_string(op.sampling_ratio) +
                      ", expected 0 (as many as the box needs) to 4096");
  const Value& x = context.input(0);
  return {{x.dtype, {rois, x.shape[1], op.output_height, op.output_width}}};
}

double pool_bin(const RoiPoints& rows, const RoiPoints& columns, const double* plane, int64_t width,
                bool max) {
  const double all = static_cast<double>(rows.pairs.size()) * static_cast<double>(columns.pairs.size());
  const double points = rows.count * columns.count;
  double sum = 0, top = points > all ? 0.0 : -std::numeric_limits<double>::infinity();
  for (const RoiPair& y : rows.pairs) {
    for (const RoiPair& x : columns.pairs) {
      const double* low = plane + y.low * width;
      const double* high = plane + y.high * width;
      const double parts[] = {
          (1 - y.fraction) * (1 - x.fraction) * low[x.low], (1 - y.fraction) * x.fraction * low[x.high],
          y.fraction * (1 - x.fraction) * high[x.low], y.fraction * x.fraction * high[x.high]};
      sum += parts[0] + parts[1] + parts[2] + parts[3];
      top = std::max({top, parts[0], parts[1], parts[2], parts[3]});
    }
  }
  if (max) return points < 1 ? 0 : top;
  return sum / std::max(points, 1.0);
}

void align_box(const RoiAlign& op, const Image& image, const double* box, int64_t number, double* out) {
  const int64_t bins = op.output_height * op.output_width;
  RoiPoints rows, columns;
  for (int64_t i = 0; i < bins; ++i) {
    find_roi_points(op, box[1], box[3], i / op.output_width, op.output_height, image.height, rows);
    find_roi_points(op, box[0], box[2], i % op.output_width, op.output_width, image.width, columns);
    for (int64_t c = 0; c < image.channels; ++c)
      out[c * bins + i] = pool_bin(rows, columns, image.plane(number, c), image.width, op.max);
  }
}

std::vector<Tensor> evaluate_roi_align(const RoiAlign& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_roi_align);
  const Extents& x = context.input(0).extents();
  const std::vector<double> data = context.input(0).to_doubles(), boxes = context.input(1).to_doubles();
  const std::vector<int64_t> images = context.input(2).to_int64s();
  const Image image{data, x[1], x[2], x[3]};
  const auto rois = static_cast<int64_t>(images.size());
  for (int64_t r = 0; r < rois; ++r)
    checked_roi_image(static_cast<double>(images[static_cast<size_t>(r)]), r, x[0]);
  if (results[0].size() == 0) return results;
  if (x[2] == 0 || x[3] == 0) throw_input_error("x of " + to_string(x) + " has no pixels to sample");
  const int64_t each = results[0].size() / rois;
  std::vector<double> out(static_cast<size_t>(results[0].size()), std::numeric_limits<double>::quiet_NaN());
  context.parallel_for(rois, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const double* box = boxes.data() + 4 * r;
      // A box without a place gives NaN.
      if (std::all_of(box, box + 4, [](double v) { return std::isfinite(v); }))
        align_box(op, image, box, images[static_cast<size_t>(r)], out.data() + r * each);
    }
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), out.data());
  return results;
}

// --- MaxRoiPool
std::vector<ResultInfo> infer_max_roi_pool(const MaxRoiPool& op, const InferContext& context) {
  expect_rank(context, 0, "x", 4);
  expect_rank(context, 1, "the boxes", 2);
  const Dim rois = context.input(1).shape[0];
  expect_shape(context, 1, "the boxes", {rois, 5});
  check_output(op.output_height, op.output_width);
  const Value& x = context.input(0);
  return {{x.dtype, {rois, x.shape[1], op.output_height, op.output_width}}};
}

double largest(const double* plane, int64_t width, RoiSpan rows, RoiSpan columns) {
  if (rows.begin >= rows.end || columns.begin >= columns.end) return 0;
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t y = rows.begin; y < rows.end; ++y)
    top =
        std::max(top, *std::max_element(plane + y * width + columns.begin, plane + y * width + columns.end));
  return top;
}

std::vector<Tensor> evaluate_max_roi_pool(const MaxRoiPool& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_max_roi_pool);
  const Extents& x = context.input(0).extents();
  const std::vector<double> data = context.input(0).to_doubles(), boxes = context.input(1).to_doubles();
  const Image image{data, x[1], x[2], x[3]};
  const int64_t bins = op.output_height * op.output_width;
  std::vector<double> out(static_cast<size_t>(results[0].size()));
  for (int64_t r = 0; r < results[0].extents()[0]; ++r) {
    const double* box = boxes.data() + 5 * r;
    const int64_t number = checked_roi_image(box[0], r, x[0]);
    if (!std::all_of(box, box + 5, [](double v) { return std::isfinite(v); }))
      throw_input_error("box " + std::to_string(r) + " has coordinates that are not finite");
    for (int64_t i = 0; i < image.channels * bins; ++i) {
      const int64_t row = i % bins / op.output_width, column = i % op.output_width;
      out[static_cast<size_t>(r * image.channels * bins + i)] =
          largest(image.plane(number, i / bins), image.width,
                  roi_span(box[2], box[4], op.spatial_scale, row, op.output_height, image.height),
                  roi_span(box[1], box[3], op.spatial_scale, column, op.output_width, image.width));
    }
  }
  ElementWriter(results[0]).store_doubles(0, results[0].size(), out.data());
  return results;
}

}  // namespace

std::vector<OpDef> roi_ops() {
  return {op_def<RoiAlign, infer_roi_align, evaluate_roi_align>(),
          op_def<MaxRoiPool, infer_max_roi_pool, evaluate_max_roi_pool>()};
}

}  // namespace lathe
