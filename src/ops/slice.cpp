// SPDX-License-Identifier: Apache-2.0
//
// Slice: a strided copy whose strides are the input's times the steps.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

// The four tensor inputs, or what is known of them. Axes and steps have their defaults filled in.
struct SliceArguments {
  Shape starts, ends;
  Ints axes, steps;
};

void check_arguments(const SliceArguments& arguments, int64_t rank) {
  const size_t count = arguments.starts.size();
  if (arguments.ends.size() != count || arguments.axes.size() != count || arguments.steps.size() != count) {
    throw_input_error("starts, ends, axes and steps have " + std::to_string(count) + ", " +
                      std::to_string(arguments.ends.size()) + ", " + std::to_string(arguments.axes.size()) +
                      " and " + std::to_string(arguments.steps.size()) +
                      " entries; they must have the same number");
  }
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (size_t i = 0; i < count; ++i) {
    const auto axis = static_cast<size_t>(normalize_axis(arguments.axes[i], rank, "Slice"));
    if (seen[axis]) throw_input_error("axis " + std::to_string(axis) + " is sliced twice");
    seen[axis] = true;
    if (arguments.steps[i] == 0) throw_input_error("the step of axis " + std::to_string(axis) + " is 0");
    if (arguments.steps[i] == INT64_MIN)
      throw_input_error("the step of axis " + std::to_string(axis) + " is too large");
  }
}

Ints default_axes(size_t count) {
  Ints axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

// The source of the result, its extents in `extents`.
StridedSource slice_source(const Tensor& x, const SliceArguments& arguments, Extents& extents) {
  check_arguments(arguments, x.rank());
  extents = x.extents();
  StridedSource source{0, row_major_strides(x.extents())};
  for (size_t i = 0; i < arguments.axes.size(); ++i) {
    const auto axis = static_cast<size_t>(normalize_axis(arguments.axes[i], x.rank(), "Slice"));
    // Bounds of the attribute form are clamped already, with -1 meaning "before the first" for negative
    // steps: it must not be read as "the last". evaluate_slice passes those through `clamped`.
    const SliceBounds bounds =
        clamp_slice(arguments.starts[i], arguments.ends[i], arguments.steps[i], Dim(x.extents()[axis]));
    extents[axis] = bounds.length.value();
    source.offset += bounds.start.value() * source.strides[axis];
    source.strides[axis] *= extents[axis] > 1 ? arguments.steps[i] : 1;
  }
  return source;
}

// The attribute form as ONNX would write it: an end of -1 means "before the first element" there.
SliceArguments attribute_arguments(const Slice& op, const Extents& starts, const Extents& ends) {
  SliceArguments arguments{to_shape(starts), to_shape(ends), op.axes, op.steps};
  if (arguments.axes.empty()) arguments.axes = default_axes(starts.size());
  if (arguments.steps.empty()) arguments.steps = Ints(starts.size(), 1);
  for (size_t i = 0; i < ends.size() && i < arguments.steps.size(); ++i) {
    if (arguments.steps[i] < 0 && ends[i] < 0) arguments.ends[i] = INT64_MIN + 1;
  }
  return arguments;
}

SliceArguments input_arguments(const EvaluateContext& context) {
  SliceArguments arguments{
      to_shape(context.input(1).to_int64s()), to_shape(context.input(2).to_int64s()), {}, {}};
  const size_t count = arguments.starts.size();
  arguments.axes = context.has(3) ? context.input(3).to_int64s() : default_axes(count);
  arguments.steps = context.has(4) ? context.input(4).to_int64s() : Ints(count, 1);
  return arguments;
}

std::vector<Tensor> evaluate_slice(const Slice& op, const EvaluateContext& context) {
  const SliceArguments arguments =
      op.starts ? attribute_arguments(op, context.extents(*op.starts), context.extents(*op.ends))
                : input_arguments(context);
  return move_elements(context, [&](const EvaluateContext& c) -> std::vector<Tensor> {
    Extents extents;
    const StridedSource source = slice_source(c.input(0), arguments, extents);
    return {gather_strided(c, c.input(0), source, extents)};
  });
}

// Axes must be known to say anything; a whole unknown axis list makes every dim data-dependent.
std::optional<Ints> known_ints(const InferContext& context, size_t input, Ints otherwise) {
  if (!context.has(input)) return otherwise;
  const auto contents = known_integers(context, input, "an axis or a step");
  if (!contents || !is_static(*contents)) return std::nullopt;
  return to_extents(*contents);
}

// Bounds of the attribute form lie inside the axis by construction, but for what was assumed of symbols.
void check_inside(const Dim& start, const Dim& end, int64_t step, const Dim& dim, int64_t axis) {
  if (!start.is_constant() || !end.is_constant() || !dim.is_constant()) return;
  const int64_t extent = dim.value(), low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? extent : extent - 1;
  if (start.value() >= low && start.value() <= high && end.value() >= low && end.value() <= high) return;
  throw_input_error("the bounds " + start.to_string() + " and " + end.to_string() + " lie outside of axis " +
                    std::to_string(axis) + ", which has " + dim.to_string() + " elements");
}

Shape sliced_by_attributes(const Slice& op, const Shape& x) {
  if (!op.ends || op.ends->size() != op.starts->size()) throw_input_error("starts and ends differ in length");
  SliceArguments arguments{*op.starts, *op.ends, op.axes, op.steps};
  if (arguments.axes.empty()) arguments.axes = default_axes(op.starts->size());
  if (arguments.steps.empty()) arguments.steps = Ints(op.starts->size(), 1);
  check_arguments(arguments, static_cast<int64_t>(x.size()));
  Shape shape = x;
  for (size_t i = 0; i < arguments.axes.size(); ++i) {
    const int64_t axis = normalize_axis(arguments.axes[i], static_cast<int64_t>(x.size()), "Slice");
    check_inside(arguments.starts[i], arguments.ends[i], arguments.steps[i], x[static_cast<size_t>(axis)],
                 axis);
    shape[static_cast<size_t>(axis)] =
        slice_length(arguments.starts[i], arguments.ends[i], arguments.steps[i]);
  }
  return shape;
}

Shape sliced_by_inputs(const InferContext& context) {
  const Shape& x = context.input(0).shape;
  const int64_t rank = context.rank(0);
  const int64_t count = shape_input_length(context, 1);
  constexpr std::array<std::string_view, 5> kLists = {"", "", "the ends", "the axes", "the steps"};
  for (size_t i = 2; i < kLists.size(); ++i)
    if (context.has(i)) expect_list(context, i, kLists[i], count);
  const auto axes = known_ints(context, 3, default_axes(static_cast<size_t>(count)));
  const auto steps = known_ints(context, 4, Ints(static_cast<size_t>(count), 1));
  Shape unknown;
  for (size_t d = 0; d < x.size(); ++d) {
    unknown.push_back(Dim::data_dependent(context.dim_name("dim" + std::to_string(d)), x[d]));
  }
  if (!axes) return unknown;
  const auto starts = known_integers(context, 1, "a start");
  const auto ends = known_integers(context, 2, "an end");
  const Shape zeros(static_cast<size_t>(count), 0);
  check_arguments(
      {starts.value_or(zeros), ends.value_or(zeros), *axes, steps.value_or(Ints(axes->size(), 1))}, rank);
  Shape shape = x;
  for (size_t i = 0; i < axes->size(); ++i) {
    const auto axis = static_cast<size_t>(normalize_axis((*axes)[i], rank, "Slice"));
    shape[axis] = starts && ends && steps ? clamp_slice((*starts)[i], (*ends)[i], (*steps)[i], x[axis]).length
                                          : unknown[axis];
  }
  return shape;
}

std::vector<ResultInfo> infer_slice(const Slice& op, const InferContext& context) {
  const Value& x = context.input(0);
  ResultInfo result{x.dtype, op.starts ? sliced_by_attributes(op, x.shape) : sliced_by_inputs(context)};
  const bool fixed = !op.starts || (is_static(*op.starts) && is_static(*op.ends));
  if (is_static(result.shape) && fixed) {
    result.contents = moved_contents(context, {0}, bind_evaluation(evaluate_slice, op))[0];
  }
  return {result};
}

}  // namespace

std::vector<OpDef> slice_ops() {
  return {op_def<Slice, infer_slice, evaluate_slice>(no_flops)};
}

}  // namespace lathe
