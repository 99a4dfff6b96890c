// SPDX-License-Identifier: Apache-2.0
//
// RoiAlign and MaxRoiPool: a fixed number of bins from each box of an image. RoiAlign interpolates at points inside a bin and
// takes their mean or largest; MaxRoiPool takes the largest whole pixel.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"

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

int64_t checked_image(double index, int64_t roi, int64_t images) {
  if (!(index >= 0 && index < static_cast<double>(images)))
    throw_input_error("box " + std::to_string(roi) + " is in image " +
                      std::to_string(truncate_to_int64(index)) + ", there are " + std::to_string(images));
  return static_cast<int64_t>(index);
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

// One dim of a bin: its points are start + (i + 0.5) * step for i < count.
struct Points {
  double start, step, count;
};

// Where a point along one dim reads; nothing when it is outside of the image.
struct Pair {
  int64_t low = 0, high = 0;
  double fraction = 0;  // of `high`
};

bool pair_at(double at, int64_t extent, Pair& pair) {
  if (!(at >= -1 && at <= static_cast<double>(extent))) return false;
  at = std::max(at, 0.0);
  pair.low = static_cast<int64_t>(at);
  if (pair.low >= extent - 1) {
    pair = {extent - 1, extent - 1, 0};
  } else {
    pair.high = pair.low + 1;
    pair.fraction = at - static_cast<double>(pair.low);
  }
  return true;
}

// All points of a dim that are inside of the image. A box may be any size: only those inside are walked.
std::vector<Pair> inside(const Points& points, int64_t extent) {
  std::vector<Pair> pairs;
  if (!(points.count >= 1)) return pairs;
  const auto number = [&](double at) {
    return points.step == 0 ? 0.0 : (at - points.start) / points.step - 0.5;
  };
  double first = number(-1), last = number(static_cast<double>(extent));
  if (points.step == 0) last = points.count;
  if (first > last) std::swap(first, last);
  first = std::max(0.0, std::floor(first) - 1);
  last = std::min(points.count - 1, std::ceil(last) + 1);
  for (double i = first; i <= last; ++i) {
    Pair pair;
    if (pair_at(points.start + (i + 0.5) * points.step, extent, pair)) pairs.push_back(pair);
  }
  return pairs;
}

struct Bin {
  std::vector<Pair> rows, columns;
  double points = 0;  // those outside included, which read zeros
};

double pool_bin(const Bin& bin, const double* plane, int64_t width, bool max) {
  const double all = static_cast<double>(bin.rows.size()) * static_cast<double>(bin.columns.size());
  double sum = 0, top = bin.points > all ? 0.0 : -std::numeric_limits<double>::infinity();
  for (const Pair& y : bin.rows) {
    for (const Pair& x : bin.columns) {
      const double* low = plane + y.low * width;
      const double* high = plane + y.high * width;
      const double parts[] = {
          (1 - y.fraction) * (1 - x.fraction) * low[x.low], (1 - y.fraction) * x.fraction * low[x.high],
          y.fraction * (1 - x.fraction) * high[x.low], y.fraction * x.fraction * high[x.high]};
      sum += parts[0] + parts[1] + parts[2] + parts[3];
      top = std::max({top, parts[0], parts[1], parts[2], parts[3]});
    }
  }
  if (max) return bin.points < 1 ? 0 : top;
  return sum / std::max(bin.points, 1.0);
}

// Bin number `index` of `bins` along a dim from `start` to `end`.
Points points_of(const RoiAlign& op, double start, double end, int64_t index, int64_t bins) {
  double length = end - start;
  if (!op.half_pixel) length = std::max(length, 1.0);
  const double bin = length / static_cast<double>(bins);
  const double count = op.sampling_ratio > 0 ? static_cast<double>(op.sampling_ratio) : std::ceil(bin);
  return {start + static_cast<double>(index) * bin, bin / count, count};
}

void align_box(const RoiAlign& op, const Image& image, const double* box, int64_t number, double* out) {
  const double shift = op.half_pixel ? 0.5 : 0.0, scale = op.spatial_scale;
  const int64_t bins = op.output_height * op.output_width;
  for (int64_t i = 0; i < bins; ++i) {
    const Points rows =
        points_of(op, box[1] * scale - shift, box[3] * scale - shift, i / op.output_width, op.output_height);
    const Points columns =
        points_of(op, box[0] * scale - shift, box[2] * scale - shift, i % op.output_width, op.output_width);
    const Bin bin{inside(rows, image.height), inside(columns, image.width),
                  std::max(rows.count, 0.0) * std::max(columns.count, 0.0)};
    for (int64_t c = 0; c < image.channels; ++c)
      out[c * bins + i] = pool_bin(bin, image.plane(number, c), image.width, op.max);
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
    checked_image(static_cast<double>(images[static_cast<size_t>(r)]), r, x[0]);
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

struct Span {
  int64_t begin, end;
};

// Pixels of bin `index` of `bins` in a box from `low` to `high`, both included. In FP32 as elsewhere: a product that lands on a half
// decides a pixel.
Span bin_span(double low, double high, float scale, int64_t index, int64_t bins, int64_t extent) {
  const double first = std::round(static_cast<float>(low) * scale);
  const double last = std::round(static_cast<float>(high) * scale);
  const double bin = std::max(last - first + 1, 1.0) / static_cast<double>(bins);
  const auto limit = static_cast<double>(extent);
  const double begin = std::clamp(std::floor(static_cast<double>(index) * bin) + first, 0.0, limit);
  const double end = std::clamp(std::ceil(static_cast<double>(index + 1) * bin) + first, 0.0, limit);
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
}

double largest(const double* plane, int64_t width, Span rows, Span columns) {
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
    const int64_t number = checked_image(box[0], r, x[0]);
    if (!std::all_of(box, box + 5, [](double v) { return std::isfinite(v); }))
      throw_input_error("box " + std::to_string(r) + " has coordinates that are not finite");
    for (int64_t i = 0; i < image.channels * bins; ++i) {
      const int64_t row = i % bins / op.output_width, column = i % op.output_width;
      out[static_cast<size_t>(r * image.channels * bins + i)] =
          largest(image.plane(number, i / bins), image.width,
                  bin_span(box[2], box[4], op.spatial_scale, row, op.output_height, image.height),
                  bin_span(box[1], box[3], op.spatial_scale, column, op.output_width, image.width));
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
