// SPDX-License-Identifier: Apache-2.0
#include "ops/grid_taps.h"

#include <algorithm>
#include <cmath>

#include "ops/cubic.h"

namespace lathe {
namespace {

// The bounds that reflection mirrors at.
struct Borders {
  double low, high;
};

Borders borders_of(int64_t extent, bool align_corners) {
  const auto n = static_cast<double>(extent);
  return align_corners ? Borders{0, n - 1} : Borders{-0.5, n - 0.5};
}

double reflect(double x, Borders b) {
  const double range = b.high - b.low;
  if (range <= 0) return b.low;
  double from_low = std::fmod(std::fabs(x - b.low), 2 * range);
  if (from_low > range) from_low = 2 * range - from_low;
  return b.low + from_low;
}

double source_position(const GridSample& op, double normalized, int64_t extent) {
  const auto n = static_cast<double>(extent);
  double x = op.align_corners ? (normalized + 1) / 2 * (n - 1) : ((normalized + 1) * n - 1) / 2;
  if (!std::isfinite(x)) return -2e9;  // outside
  if (op.mode == ResizeMode::Nearest) x = std::nearbyint(x);
  const Borders b = borders_of(extent, op.align_corners);
  if (x < b.low || x > b.high) {
    // A cubic keeps its place, and each of its pixels is taken from the border: what PyTorch and ONNX Runtime
    // do.
    if (op.padding == GridPadding::Border && op.mode != ResizeMode::Cubic) x = std::clamp(x, 0.0, n - 1);
    if (op.padding == GridPadding::Reflection) x = reflect(x, b);
  }
  return std::clamp(x, -2e9, 2e9);
}

GridTaps taps_at(const GridSample& op, double x, int64_t extent) {
  GridTaps taps;
  const double floor = std::floor(x), t = x - floor;
  const auto first = static_cast<int64_t>(floor);
  if (op.mode == ResizeMode::Nearest) {
    taps = {1, {static_cast<int64_t>(std::nearbyint(x))}, {1}};
  } else if (op.mode == ResizeMode::Linear) {
    taps = {2, {first, first + 1}, {1 - t, t}};
  } else {
    constexpr double a = -0.75;
    taps = {4,
            {first - 1, first, first + 1, first + 2},
            {cubic(1 + t, a), cubic(t, a), cubic(1 - t, a), cubic(2 - t, a)}};
  }
  for (int i = 0; i < taps.count; ++i) {
    int64_t& at = taps.index[i];
    if (at >= 0 && at < extent) continue;
    if (op.padding == GridPadding::Zeros) taps.weight[i] = 0;
    if (op.padding == GridPadding::Reflection) {
      at = static_cast<int64_t>(reflect(static_cast<double>(at), borders_of(extent, op.align_corners)));
    }
    at = std::clamp<int64_t>(at, 0, extent - 1);
  }
  return taps;
}

}  // namespace

GridTaps grid_taps(const GridSample& op, double normalized, int64_t extent) {
  return taps_at(op, source_position(op, normalized, extent), extent);
}

}  // namespace lathe
