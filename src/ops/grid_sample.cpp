// SPDX-License-Identifier: Apache-2.0
//
// GridSample: each result position reads x at a place that the grid says, in units of [-1, 1] over the image.
// Interpolation is separable: along each dim a place is a short list of (index, weight), and the product of
// the lists is summed per channel. Padding decides what an index outside of the image reads.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/cubic.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"

namespace lathe {
namespace {

struct Taps {
  int count = 0;
  int64_t index[4] = {};
  double weight[4] = {};
};

std::vector<ResultInfo> infer_grid_sample(const GridSample&, const InferContext& context) {
  const Value &x = context.input(0), &grid = context.input(1);
  const int64_t rank = context.rank(0);
  if (rank < 3 || context.rank(1) != rank) {
    throw_input_error("x and grid must have the same rank of at least 3, they are " + to_string(x.shape) +
                      " and " + to_string(grid.shape));
  }
  expect_real(context, 1, "the grid");
  Shape expected = grid.shape;
  expected[0] = x.shape[0];
  expected.back() = rank - 2;
  expect_shape(context, 1, "the grid", expected);
  Shape shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  return {{x.dtype, std::move(shape)}};
}

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

Taps taps_at(const GridSample& op, double x, int64_t extent) {
  Taps taps;
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

// The sum over all combinations of taps of dims [dim, rank).
double interpolate(const double* x, const std::vector<Taps>& taps, const Extents& strides, size_t dim) {
  if (dim == taps.size()) return *x;
  double sum = 0;
  for (int i = 0; i < taps[dim].count; ++i) {
    if (taps[dim].weight[i] == 0) continue;
    sum += taps[dim].weight[i] * interpolate(x + taps[dim].index[i] * strides[dim], taps, strides, dim + 1);
  }
  return sum;
}

std::vector<Tensor> evaluate_grid_sample(const GridSample& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_grid_sample);
  const Tensor& x = context.input(0);
  if (results[0].size() == 0) return results;
  const Extents spatial(x.extents().begin() + 2, x.extents().end());
  const int64_t channels = x.extents()[1], plane = element_count(spatial);
  if (plane == 0) throw_input_error("x of " + to_string(x.extents()) + " has no pixels to sample");
  const auto rank = static_cast<int64_t>(spatial.size());
  const int64_t places = results[0].size() / (x.extents()[0] * channels);
  const std::vector<double> image = x.to_doubles(), grid = context.input(1).to_doubles();
  const Extents strides = row_major_strides(spatial);
  std::vector<double> out(static_cast<size_t>(results[0].size()));
  context.parallel_for(x.extents()[0] * places, 64, [&](int64_t begin, int64_t end) {
    std::vector<Taps> taps(spatial.size());
    for (int64_t i = begin; i < end; ++i) {
      for (size_t d = 0; d < spatial.size(); ++d) {
        const double at = grid[static_cast<size_t>((i + 1) * rank - 1) - d];  // innermost first
        taps[d] = taps_at(op, source_position(op, at, spatial[d]), spatial[d]);
      }
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t row = i / places * channels + c;
        out[static_cast<size_t>(row * places + i % places)] =
            interpolate(image.data() + row * plane, taps, strides, 0);
      }
    }
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), out.data());
  return results;
}

double grid_sample_flops(const Op& op, const CostContext& context) {
  const auto& fields = std::get<GridSample>(op);
  const double taps = fields.mode == ResizeMode::Nearest ? 1 : fields.mode == ResizeMode::Linear ? 2 : 4;
  return 2 * std::pow(taps, static_cast<double>(context.inputs[0].size()) - 2) *
         static_cast<double>(element_count(context.outputs[0]));
}

}  // namespace

std::vector<OpDef> grid_sample_ops() {
  return {op_def<GridSample, infer_grid_sample, evaluate_grid_sample>(grid_sample_flops)};
}

}  // namespace lathe
