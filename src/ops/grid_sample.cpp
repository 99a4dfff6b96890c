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
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/grid_taps.h"

namespace lathe {
namespace {

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

// The sum over all combinations of taps of dims [dim, rank).
double interpolate(const double* x, const std::vector<GridTaps>& taps, const Extents& strides, size_t dim) {
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
    std::vector<GridTaps> taps(spatial.size());
    for (int64_t i = begin; i < end; ++i) {
      for (size_t d = 0; d < spatial.size(); ++d) {
        const double at = grid[static_cast<size_t>((i + 1) * rank - 1) - d];  // innermost first
        taps[d] = grid_taps(op, at, spatial[d]);
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
