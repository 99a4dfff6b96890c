// SPDX-License-Identifier: Apache-2.0
#include "ops/roi_points.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ir/elements.h"

namespace lathe {
namespace {

bool pair_at(double at, int64_t extent, RoiPair& pair) {
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

}  // namespace

// Points are start + (i + 0.5) * step for i < count.
void find_roi_points(const RoiAlign& op, double low, double high, int64_t index, int64_t bins, int64_t extent,
                     RoiPoints& points) {
  const double shift = op.half_pixel ? 0.5 : 0.0, scale = op.spatial_scale;
  const double begin = low * scale - shift;
  double length = high * scale - shift - begin;
  if (!op.half_pixel) length = std::max(length, 1.0);
  const double bin = length / static_cast<double>(bins);
  const double count = op.sampling_ratio > 0 ? static_cast<double>(op.sampling_ratio) : std::ceil(bin);
  const double start = begin + static_cast<double>(index) * bin, step = bin / count;
  points.pairs.clear();
  points.count = std::max(count, 0.0);
  if (!(count >= 1)) return;
  const auto number = [&](double at) { return step == 0 ? 0.0 : (at - start) / step - 0.5; };
  double first = number(-1), last = number(static_cast<double>(extent));
  if (step == 0) last = count;
  if (first > last) std::swap(first, last);
  first = std::max(0.0, std::floor(first) - 1);
  last = std::min(count - 1, std::ceil(last) + 1);
  for (double i = first; i <= last; ++i) {
    RoiPair pair;
    if (pair_at(start + (i + 0.5) * step, extent, pair)) points.pairs.push_back(pair);
  }
}

// In FP32 as elsewhere: a product that lands on a half decides a pixel.
RoiSpan roi_span(double low, double high, float scale, int64_t index, int64_t bins, int64_t extent) {
  const double first = std::round(static_cast<float>(low) * scale);
  const double last = std::round(static_cast<float>(high) * scale);
  const double bin = std::max(last - first + 1, 1.0) / static_cast<double>(bins);
  const auto limit = static_cast<double>(extent);
  const double begin = std::clamp(std::floor(static_cast<double>(index) * bin) + first, 0.0, limit);
  const double end = std::clamp(std::ceil(static_cast<double>(index + 1) * bin) + first, 0.0, limit);
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
}

int64_t checked_roi_image(double index, int64_t roi, int64_t images) {
  if (!(index >= 0 && index < static_cast<double>(images)))
    throw_input_error("box " + std::to_string(roi) + " is in image " +
                      std::to_string(truncate_to_int64(index)) + ", there are " + std::to_string(images));
  return static_cast<int64_t>(index);
}

}  // namespace lathe
