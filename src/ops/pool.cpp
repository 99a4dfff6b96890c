// SPDX-License-Identifier: Apache-2.0
//
// Pool: maximum (with indices), average and Lp norm over sliding windows, any number of spatial dims. Taps
// that meet padding take no part; an average counts them only with count_include_pad, and never those beyond
// the declared padding (where ceil_mode lets a window stick out).

#include <cmath>
#include <limits>

#include "ir/elements.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/window.h"

namespace lathe {

namespace {

WindowSpec spec_of(const Pool& op) {
  return {op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad, op.ceil_mode};
}

std::vector<ResultInfo> infer_pool(const Pool& op, const InferContext& context) {
  const Shape& x = context.input(0).shape;
  if (x.size() < 3) throw_input_error("needs data (N, C, spatial...), has " + to_string(x));
  check_window(spec_of(op), x.size() - 2, "Pool");
  const Shape spatial(x.begin() + 2, x.end());
  if (is_static(spatial))
    resolve_window(spec_of(op), to_extents(spatial));  // throws when the window does not fit
  Shape shape = {x[0], x[1]};
  for (const Dim& dim : window_output(spec_of(op), spatial)) shape.push_back(dim);
  std::vector<ResultInfo> results = {{context.input(0).dtype, shape}};
  if (op.kind == PoolKind::Max) results.push_back({DType::Int64, shape});
  return results;
}

// The taps of one output position along one axis: which meet data, and how many count when padding does.
struct AxisTaps {
  int64_t begin = 0, end = 0;  // taps that meet data
  int64_t padded = 0;          // taps that meet data or declared padding
  int64_t start = 0;           // input position of tap 0
};

// Computed, not counted: a kernel in a damaged model may claim billions of taps.
AxisTaps taps_at(const WindowAxis& axis, int64_t output) {
  const int64_t start = output * axis.stride - axis.pad_begin;
  // How many taps lie before `position`.
  const auto taps_before = [&](int64_t position) {
    const int64_t distance = position - start;
    return distance <= 0 ? 0 : std::min(axis.kernel, (distance + axis.dilation - 1) / axis.dilation);
  };
  return {taps_before(0), taps_before(axis.input), taps_before(axis.input + axis.pad_end), start};
}

struct Best {
  double value = 0;
  int64_t index = -1;  // in the plane, row-major
};

// Accumulates one window of one plane.
struct Window {
  PoolKind kind;
  double p;
  double sum = 0;
  Best best;
  int64_t count = 0;

  void add(double value, int64_t index) {
    ++count;
    if (kind == PoolKind::Max) {
      if (best.index < 0 || value > best.value || (std::isnan(value) && !std::isnan(best.value)))
        best = {value, index};
    } else {
      sum += kind == PoolKind::Lp ? std::pow(std::abs(value), p) : value;
    }
  }
};

void visit_window(const std::vector<WindowAxis>& axes, const std::vector<AxisTaps>& taps, const double* plane,
                  size_t d, int64_t offset, Window& window) {
  const WindowAxis& axis = axes[d];
  for (int64_t k = taps[d].begin; k < taps[d].end; ++k) {
    const int64_t position = offset * axis.input + taps[d].start + k * axis.dilation;
    if (d + 1 == axes.size()) {
      window.add(plane[position], position);
    } else {
      visit_window(axes, taps, plane, d + 1, position, window);
    }
  }
}

// The index of a plane element when the plane is stored with its first axis innermost.
int64_t column_major_index(const std::vector<WindowAxis>& axes, int64_t index) {
  std::vector<int64_t> position(axes.size());
  for (size_t d = axes.size(); d-- > 0;) {
    position[d] = index % axes[d].input;
    index /= axes[d].input;
  }
  int64_t result = 0;
  for (size_t d = axes.size(); d-- > 0;) result = result * axes[d].input + position[d];
  return result;
}

double finish(const Pool& op, const Window& window, const std::vector<AxisTaps>& taps) {
  switch (op.kind) {
    case PoolKind::Max:
      return window.best.index < 0 ? -std::numeric_limits<double>::infinity() : window.best.value;
    case PoolKind::Lp:
      return std::pow(window.sum, 1.0 / static_cast<double>(op.p));
    case PoolKind::Average:
      break;
  }
  int64_t padded = 1;
  for (const AxisTaps& axis : taps) padded *= axis.padded;
  const int64_t divisor = op.count_include_pad ? padded : window.count;
  return divisor == 0 ? 0 : window.sum / static_cast<double>(divisor);
}

std::vector<Tensor> evaluate_pool(const Pool& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  const std::vector<WindowAxis> axes =
      resolve_window(spec_of(op), Extents(x.extents().begin() + 2, x.extents().end()));
  Extents extents(x.extents().begin(), x.extents().begin() + 2);
  int64_t in_plane = 1, out_plane = 1;
  for (const WindowAxis& axis : axes) {
    extents.push_back(axis.output);
    in_plane *= axis.input;
    out_plane *= axis.output;
  }
  const bool want_indices = op.kind == PoolKind::Max && context.output_count > 1;
  Tensor result = allocate_result(x.dtype(), extents);
  Tensor indices = want_indices ? allocate_result(DType::Int64, extents) : Tensor();
  const ElementWriter writer(result);
  int64_t* index_data = want_indices ? indices.mutable_data<int64_t>().data() : nullptr;
  context.parallel_for(extents[0] * extents[1], 1, [&](int64_t first, int64_t last) {
    std::vector<double> plane(static_cast<size_t>(in_plane)), out(static_cast<size_t>(out_plane));
    std::vector<AxisTaps> taps(axes.size());
    for (int64_t p = first; p < last; ++p) {
      load_doubles(x, p * in_plane, in_plane, plane.data());
      for (int64_t o = 0; o < out_plane; ++o) {
        for (int64_t d = static_cast<int64_t>(axes.size()) - 1, rest = o; d >= 0; --d) {
          const size_t axis = static_cast<size_t>(d);
          taps[axis] = taps_at(axes[axis], rest % axes[axis].output);
          rest /= axes[axis].output;
        }
        Window window{op.kind, static_cast<double>(op.p)};
        visit_window(axes, taps, plane.data(), 0, 0, window);
        out[static_cast<size_t>(o)] = finish(op, window, taps);
        if (index_data) {
          const int64_t best =
              op.column_major ? column_major_index(axes, window.best.index) : window.best.index;
          index_data[p * out_plane + o] = p * in_plane + best;
        }
      }
      writer.store_doubles(p * out_plane, out_plane, out.data());
    }
  });
  std::vector<Tensor> results = {std::move(result)};
  if (want_indices) results.push_back(std::move(indices));
  return results;
}

// One operation per tap.
double pool_flops(const Op& op, const CostContext& context) {
  double taps = 1;
  for (int64_t extent : std::get<Pool>(op).kernel) taps *= static_cast<double>(extent);
  return taps * static_cast<double>(element_count(context.outputs[0]));
}

}  // namespace

std::vector<OpDef> pool_ops() {
  return {op_def<Pool, infer_pool, evaluate_pool>(pool_flops)};
}

}  // namespace lathe
