// SPDX-License-Identifier: Apache-2.0
//
// Resize. Interpolation is separable: each resized dim is a linear map from its input to its result
// positions, given by a table of (first index, weights) per result position, and the maps are applied one dim
// after the other in double. All of ONNX's variety (modes, coordinates, antialias, exclude_outside, crops) is
// in how the tables are made.
//
// A source position x lies between floor(x) and floor(x) + 1; when it is a whole number ONNX takes the pixel
// pair on its left with ratio 1, which decides which neighbours a kernel sees.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/cubic.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/resize_taps.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

// How one dim is resized.
struct AxisPlan {
  size_t axis = 0;
  int64_t in = 0, out = 0;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;
};

// Result position i is the sum of weights[k] * in[clamp(first[i] + k)]; `outside`: the extrapolation value
// instead.
struct AxisTable {
  int64_t taps = 1;
  std::vector<int64_t> first;
  std::vector<double> weights;
  std::vector<bool> outside;
};

// The position in the input that result position i shows.
double source_position(const Resize& op, const AxisPlan& plan, int64_t i) {
  const auto x = static_cast<double>(i);
  const auto in = static_cast<double>(plan.in);
  const double out = plan.scale * in;  // not rounded
  switch (op.coordinates) {
    case CoordinateMode::AlignCorners:
      return out == 1 ? 0 : x * (in - 1) / (out - 1);
    case CoordinateMode::Asymmetric:
      return x / plan.scale;
    case CoordinateMode::TfCropAndResize: {
      const double width = plan.roi_end - plan.roi_begin;
      const double at = out == 1 ? width * (in - 1) / 2 : x * width * (in - 1) / (out - 1);
      return at + plan.roi_begin * (in - 1);
    }
    case CoordinateMode::PytorchHalfPixel:
      return out == 1 ? -0.5 : (x + 0.5) / plan.scale - 0.5;
    case CoordinateMode::HalfPixelSymmetric: {
      const double adjustment = static_cast<double>(plan.out) / out;
      return in / 2 * (1 - adjustment) + (x + 0.5) / plan.scale - 0.5;
    }
    case CoordinateMode::TfHalfPixelForNn:
      return (x + 0.5) / plan.scale;
    case CoordinateMode::HalfPixel:
      break;
  }
  return (x + 0.5) / plan.scale - 0.5;
}

// --- kernels: weights of the taps around a position with `ratio` in (0, 1]
std::vector<double> nearest_weights(NearestMode mode, double ratio) {
  if (ratio == 1) return {0, 1};
  bool right = false;
  switch (mode) {
    case NearestMode::RoundPreferFloor:
      right = ratio > 0.5;
      break;
    case NearestMode::RoundPreferCeil:
      right = ratio >= 0.5;
      break;
    case NearestMode::Floor:
      break;
    case NearestMode::Ceil:
      right = true;
      break;
  }
  return right ? std::vector<double>{0, 1} : std::vector<double>{1, 0};
}

// A kernel of radius `radius`, stretched by 1/scale when it shrinks the image (antialias).
template <class Kernel>
std::vector<double> stretched_weights(double radius, double scale, double ratio, Kernel&& kernel) {
  scale = std::min(scale, 1.0);
  const auto start = static_cast<int64_t>(std::floor(-radius / scale)) + 1;
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = start; i < 2 - start; ++i) {
    weights.push_back(kernel(scale * (static_cast<double>(i) - ratio)));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<double> kernel_weights(const Resize& op, double scale, double ratio) {
  const double a = op.cubic_coeff_a;
  switch (op.mode) {
    case ResizeMode::Nearest:
      return nearest_weights(op.nearest, ratio);
    case ResizeMode::Linear:
      if (!op.antialias) return {1 - ratio, ratio};
      return stretched_weights(1, scale, ratio,
                               [](double x) { return std::clamp(1 - std::fabs(x), 0.0, 1.0); });
    case ResizeMode::Cubic:
      break;
  }
  if (op.antialias) return stretched_weights(2, scale, ratio, [a](double x) { return cubic(x, a); });
  return {cubic(ratio + 1, a), cubic(ratio, a), cubic(1 - ratio, a), cubic(2 - ratio, a)};
}

AxisTable axis_table(const Resize& op, const AxisPlan& plan) {
  AxisTable table;
  for (int64_t i = 0; i < plan.out; ++i) {
    const double position = source_position(op, plan, i);
    table.outside.push_back(op.coordinates == CoordinateMode::TfCropAndResize &&
                            (position < 0 || position > static_cast<double>(plan.in - 1)));
    // Far outside (an absurd crop) a position could leave the integers; the edge is all it can show.
    const double at = std::clamp(position, -1e15, 1e15);
    const double whole = std::floor(at);
    const double ratio = at == whole ? 1 : at - whole;
    std::vector<double> weights = kernel_weights(op, plan.scale, ratio);
    table.taps = static_cast<int64_t>(weights.size());
    // The taps around the pair (left, left + 1) that the ratio lies in.
    const auto left = static_cast<int64_t>(whole) - (at == whole ? 1 : 0);
    const int64_t first = left - (table.taps / 2 - 1);
    if (op.exclude_outside) {
      double sum = 0;
      for (int64_t k = 0; k < table.taps; ++k) {
        if (first + k < 0 || first + k >= plan.in) weights[static_cast<size_t>(k)] = 0;
        sum += weights[static_cast<size_t>(k)];
      }
      for (double& weight : weights) weight = sum == 0 ? 0 : weight / sum;
    }
    table.first.push_back(first);
    table.weights.insert(table.weights.end(), weights.begin(), weights.end());
  }
  return table;
}

// Applies the table along the axis: `in` has extents (outer, plan.in, inner).
std::vector<double> resized_along(const Resize& op, const AxisPlan& plan, const AxisTable& table,
                                  const std::vector<double>& in, int64_t outer, int64_t inner,
                                  const EvaluateContext& context) {
  std::vector<double> out(static_cast<size_t>(outer * plan.out * inner));
  const auto row = [&](int64_t o, int64_t i) {
    double* to = out.data() + (o * plan.out + i) * inner;
    if (table.outside[static_cast<size_t>(i)]) {
      std::fill_n(to, inner, static_cast<double>(op.extrapolation_value));
      return;
    }
    for (int64_t k = 0; k < table.taps; ++k) {
      const double weight = table.weights[static_cast<size_t>(i * table.taps + k)];
      if (weight == 0) continue;  // nearest must not turn infinity into NaN
      const int64_t index = std::clamp<int64_t>(table.first[static_cast<size_t>(i)] + k, 0, plan.in - 1);
      const double* from = in.data() + (o * plan.in + index) * inner;
      for (int64_t j = 0; j < inner; ++j) to[j] += weight * from[j];
    }
  };
  context.parallel_for(outer * plan.out, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, inner)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r) row(r / plan.out, r % plan.out);
                       });
  return out;
}

// --- what is resized to what
std::vector<size_t> op_axes(const Resize& op, size_t rank) {
  std::vector<size_t> axes;
  if (op.axes.empty()) {
    for (size_t d = 0; d < rank; ++d) axes.push_back(d);
  }
  for (const int64_t axis : op.axes) {
    axes.push_back(static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(rank), "Resize's axes")));
  }
  return axes;
}

std::vector<float> as_floats(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_doubles();
  return {values.begin(), values.end()};
}

bool is_given(const EvaluateContext& context, size_t i) {
  return context.has(i) && context.input(i).size() > 0;
}

std::vector<AxisPlan> axis_plans(const Resize& op, const EvaluateContext& context, const Extents& in) {
  const std::vector<size_t> axes = op_axes(op, in.size());
  std::vector<float> scales = op.scales;
  if (scales.empty() && !op.sizes && is_given(context, 2)) scales = as_floats(context.input(2));
  Extents out;
  if (!scales.empty()) {
    out = to_extents(resize_shape(op, to_shape(in), scales));
  } else {
    if (!op.sizes && !is_given(context, 3)) throw_input_error("Resize needs scales or sizes");
    const Extents sizes = op.sizes ? context.extents(*op.sizes) : context.input(3).to_int64s();
    out = to_extents(resize_shape_for_sizes(op, to_shape(in), to_shape(sizes)).value());
    for (size_t i = 0; i < axes.size(); ++i) {
      scales.push_back(0);  // filled below, in double
    }
  }
  std::vector<double> roi;
  if (op.coordinates == CoordinateMode::TfCropAndResize) {
    roi = is_given(context, 1) ? context.input(1).to_doubles() : std::vector<double>{};
    if (roi.size() != 2 * axes.size()) {
      throw_input_error("tf_crop_and_resize needs a roi of " + std::to_string(2 * axes.size()) +
                        " numbers, it has " + std::to_string(roi.size()));
    }
  }
  double kept = op.aspect == AspectPolicy::NotLarger ? INFINITY : 0;
  std::vector<AxisPlan> plans;
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisPlan plan{axes[i], in[axes[i]], out[axes[i]]};
    plan.scale = scales[i] != 0 ? static_cast<double>(scales[i])
                                : static_cast<double>(plan.out) / static_cast<double>(plan.in);
    if (!roi.empty()) plan.roi_begin = roi[i], plan.roi_end = roi[i + axes.size()];
    plans.push_back(plan);
  }
  // With an aspect policy all dims share the scale that the given sizes decide.
  if (op.scales.empty() && op.aspect != AspectPolicy::Stretch && !is_given(context, 2)) {
    const Extents sizes = op.sizes ? context.extents(*op.sizes) : context.input(3).to_int64s();
    for (size_t i = 0; i < axes.size(); ++i) {
      const double ratio = static_cast<double>(sizes[i]) / static_cast<double>(in[axes[i]]);
      kept = op.aspect == AspectPolicy::NotLarger ? std::min(kept, ratio) : std::max(kept, ratio);
    }
    for (AxisPlan& plan : plans) plan.scale = kept;
  }
  return plans;
}

bool is_identity(const AxisPlan& plan) {
  return plan.in == plan.out && std::fabs(plan.scale - 1) <= 1e-9 && plan.roi_begin == 0 && plan.roi_end == 1;
}

Tensor rounded_result(DType dtype, const Extents& extents, const std::vector<double>& values) {
  Tensor result = allocate_result(dtype, extents);
  ElementWriter(result).store_doubles(0, result.size(), values.data());
  return result;
}

// Nearest with whole source positions needs no arithmetic, so it works on every type exactly (int64 beyond
// 2^53 too).
bool is_pure_movement(const Resize& op) {
  return op.mode == ResizeMode::Nearest && op.coordinates != CoordinateMode::TfCropAndResize;
}

std::vector<Tensor> moved(const std::vector<AxisPlan>& plans, const std::vector<AxisTable>& tables,
                          const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  Extents extents = x.extents();
  std::vector<std::vector<int64_t>> index(extents.size());
  for (size_t p = 0; p < plans.size(); ++p) {
    if (is_identity(plans[p])) continue;
    extents[plans[p].axis] = plans[p].out;
    for (int64_t i = 0; i < plans[p].out; ++i) {
      const auto at = static_cast<size_t>(i);
      const int64_t tap = tables[p].weights[2 * at] != 0 ? 0 : 1;
      index[plans[p].axis].push_back(std::clamp<int64_t>(tables[p].first[at] + tap, 0, plans[p].in - 1));
    }
  }
  Tensor result = allocate_result(x.dtype(), extents);
  if (result.size() == 0) return {result};
  const Extents strides = row_major_strides(x.extents());
  const int64_t bytes = element_bytes(x.dtype());
  const std::byte* from = x.bytes().data();
  std::byte* to = result.mutable_bytes().data();
  context.parallel_for(result.size(), 1 << 13, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t offset = 0, rest = i;
      for (size_t d = extents.size(); d-- > 0; rest /= extents[d]) {
        const int64_t at = rest % extents[d];
        offset += (index[d].empty() ? at : index[d][static_cast<size_t>(at)]) * strides[d];
      }
      std::memcpy(to + i * bytes, from + offset * bytes, static_cast<size_t>(bytes));
    }
  });
  return {result};
}

std::vector<Tensor> evaluate_resize(const Resize& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  const std::vector<AxisPlan> plans = axis_plans(op, context, x.extents());
  Extents extents = x.extents(), result_extents = x.extents();
  for (const AxisPlan& plan : plans) {
    if (plan.in == 0 && plan.out > 0)
      throw_input_error("cannot resize a dim of 0 to " + std::to_string(plan.out));
    result_extents[plan.axis] = plan.out;
  }
  // Before the tables: another dim of 0 must not hide that a table would be absurdly long.
  check_result_size(x.dtype(), result_extents);
  if (element_count(result_extents) == 0) return {allocate_result(x.dtype(), result_extents)};
  std::vector<AxisTable> tables;
  for (const AxisPlan& plan : plans) {
    check_result_size(DType::Float64, {plan.out, 16});
    tables.push_back(is_identity(plan) ? AxisTable{} : axis_table(op, plan));
  }
  if (is_pure_movement(op)) {
    return move_elements(context, [&](const EvaluateContext& c) { return moved(plans, tables, c); });
  }
  std::vector<double> values = x.to_doubles();
  for (size_t p = 0; p < plans.size(); ++p) {
    if (is_identity(plans[p])) continue;
    int64_t outer = 1, inner = 1;
    for (size_t d = 0; d < extents.size(); ++d)
      (d < plans[p].axis ? outer : inner) *= d == plans[p].axis ? 1 : extents[d];
    extents[plans[p].axis] = plans[p].out;
    check_result_size(DType::Float64, extents);
    values = resized_along(op, plans[p], tables[p], values, outer, inner, context);
  }
  return {rounded_result(x.dtype(), extents, values)};
}

std::vector<ResultInfo> infer_resize(const Resize& op, const InferContext& context) {
  const Value& x = context.input(0);
  if (op.antialias && op.mode == ResizeMode::Nearest) {
    throw_input_error("antialias needs the mode linear or cubic, not nearest");
  }
  const int64_t rank = context.rank(0);
  const Shape unknown = data_dependent_shape(context, rank, kUnboundedUpper);
  const auto is_some = [&](size_t i) {
    return context.has(i) &&
           !(context.input(i).shape.size() == 1 && context.input(i).shape[0].is_constant(0));
  };
  std::vector<float> scales = op.scales;
  if (scales.empty() && !op.sizes && is_some(2)) {
    if (!context.input(2).is_constant()) return {{x.dtype, unknown}};
    scales = as_floats(context.input(2).constant);
  }
  if (!scales.empty()) return {{x.dtype, resize_shape(op, x.shape, scales)}};
  if (!op.sizes && !is_some(3)) throw_input_error("Resize needs scales or sizes");
  const auto sizes = op.sizes ? op.sizes : known_integers(context, 3, "the sizes");
  const auto shape = sizes ? resize_shape_for_sizes(op, x.shape, *sizes) : std::nullopt;
  return {{x.dtype, shape.value_or(unknown)}};
}

double resize_flops(const Op& op, const CostContext& context) {
  const auto& resize = std::get<Resize>(op);
  const double taps = resize.mode == ResizeMode::Cubic ? 32 : resize.mode == ResizeMode::Linear ? 8 : 0;
  return taps * static_cast<double>(element_count(context.outputs[0]));
}

}  // namespace

std::vector<ResizeTaps> resize_taps(const Resize& op, const EvaluateContext& context, const Extents& x) {
  std::vector<ResizeTaps> all;
  for (const AxisPlan& plan : axis_plans(op, context, x)) {
    if (is_identity(plan)) continue;
    check_result_size(DType::Float64, {plan.out, 16});
    const AxisTable table = axis_table(op, plan);
    ResizeTaps taps{plan.axis,  plan.in, plan.out,
                    table.taps, {},      {table.weights.begin(), table.weights.end()}};
    for (const int64_t first : table.first)
      for (int64_t k = 0; k < table.taps; ++k)
        taps.index.push_back(std::clamp<int64_t>(first + k, 0, plan.in - 1));
    all.push_back(std::move(taps));
  }
  return all;
}

std::vector<OpDef> resize_ops() {
  return {op_def<Resize, infer_resize, evaluate_resize>(resize_flops)};
}

}  // namespace lathe
