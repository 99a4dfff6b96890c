// SPDX-License-Identifier: Apache-2.0
//
// Values from shapes: ShapeTensor, ShapeOf, Range and Fill. Their contents stay dims as long as anything can
// be said.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

// --- ShapeTensor
std::vector<Tensor> evaluate_shape_tensor(const ShapeTensor& op, const EvaluateContext& context) {
  const Extents values = context.extents(op.dims);
  if (op.scalar) return {Tensor::from<int64_t>({}, values)};
  return {Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values)};
}

std::vector<ResultInfo> infer_shape_tensor(const ShapeTensor& op, const InferContext&) {
  if (op.scalar && op.dims.size() != 1) throw_input_error("a scalar needs exactly one dim");
  const Shape shape = op.scalar ? Shape{} : Shape{Dim(static_cast<int64_t>(op.dims.size()))};
  return {{DType::Int64, shape, op.dims}};
}

// --- ShapeOf: dims [start, end), both clamped as Python's slices are
template <class S>
S dims_between(const ShapeOf& op, const S& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t begin = clamped(op.start), end = op.end && !op.end->empty() ? clamped(op.end->front()) : rank;
  return begin < end ? S(shape.begin() + begin, shape.begin() + end) : S{};
}

std::vector<Tensor> evaluate_shape_of(const ShapeOf& op, const EvaluateContext& context) {
  const Extents values = dims_between(op, context.input(0).extents());
  return {Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values)};
}

std::vector<ResultInfo> infer_shape_of(const ShapeOf& op, const InferContext& context) {
  Shape dims = dims_between(op, context.input(0).shape);
  const auto count = static_cast<int64_t>(dims.size());
  return {{DType::Int64, {Dim(count)}, std::move(dims)}};
}

// --- Range
void check_range_types(DType start, DType limit, DType delta) {
  if (start == limit && limit == delta && start != DType::Bool && dtype_info(start).bits >= 16) return;
  throw_input_error("start, limit and delta have types " + std::string(dtype_name(start)) + ", " +
                    std::string(dtype_name(limit)) + ", " + std::string(dtype_name(delta)) +
                    "; they must be of one number type");
}

// How many elements a range of constants has. Throws Input for a step of 0, operands of several elements, and
// more elements than a tensor may have.
int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  check_range_types(start.dtype(), limit.dtype(), delta.dtype());
  if (start.size() != 1 || limit.size() != 1 || delta.size() != 1)
    throw_input_error("start, limit and delta must have one element each");
  double count = 0;
  if (is_float(start.dtype())) {
    const double step = delta.to_doubles()[0];
    count = std::ceil((limit.to_doubles()[0] - start.to_doubles()[0]) / step);
    if (!(std::fabs(step) > 0) || std::isnan(count))
      throw_input_error("the step of a range is 0 or not a number");
  } else {
    count = static_cast<double>(
        range_length(start.to_int64s()[0], limit.to_int64s()[0], delta.to_int64s()[0]).value());
  }
  if (count > static_cast<double>(kUnboundedUpper))
    throw_input_error("a range of " + std::to_string(static_cast<int64_t>(std::min(count, 9e18))) +
                      " elements is not supported");
  return static_cast<int64_t>(std::max(count, 0.0));
}

std::vector<Tensor> evaluate_range(const Range&, const EvaluateContext& context) {
  const Tensor &start = context.input(0), &delta = context.input(2);
  const int64_t count = range_count(start, context.input(1), delta);
  Tensor result = allocate_result(start.dtype(), {count});
  const ElementWriter writer(result);
  if (is_float(start.dtype())) {
    const double first = start.to_doubles()[0], step = delta.to_doubles()[0];
    for (int64_t i = 0; i < count; ++i) {
      const double value = first + static_cast<double>(i) * step;
      writer.store_doubles(i, 1, &value);
    }
    return {result};
  }
  const int64_t first = start.to_int64s()[0], step = delta.to_int64s()[0];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = first + i * step;
    writer.store_int64s(i, 1, &value);
  }
  return {result};
}

std::vector<ResultInfo> infer_range(const Range&, const InferContext& context) {
  const Value &start = context.input(0), &limit = context.input(1), &delta = context.input(2);
  check_range_types(start.dtype, limit.dtype, delta.dtype);
  for (size_t i = 0; i < 3; ++i) expect_elements(context, i, "start, limit and delta", 1);
  ResultInfo result{start.dtype, {Dim::data_dependent(context.dim_name("length"), kUnboundedUpper)}};
  if (start.is_constant() && limit.is_constant() && delta.is_constant()) {
    const int64_t count = range_count(start.constant, limit.constant, delta.constant);
    result.shape = {Dim(count)};
    if (!is_float(start.dtype) && count <= kMaxContents) {
      Shape contents;
      for (int64_t i = 0; i < count; ++i)
        contents.push_back(start.constant.to_int64s()[0] + i * delta.constant.to_int64s()[0]);
      result.contents = std::move(contents);
    }
    return {result};
  }
  const auto first = context.contents(0), last = context.contents(1), step = context.contents(2);
  if (!first || !last || !step || first->size() != 1 || last->size() != 1 || step->size() != 1)
    return {result};
  if (!(*step)[0].is_constant()) return {result};
  const Dim length = range_length((*first)[0], (*last)[0], (*step)[0].value());
  result.shape = {length};
  if (length.is_constant() && length.value() <= kMaxContents) {
    Shape contents;
    for (int64_t i = 0; i < length.value(); ++i) contents.push_back((*first)[0] + (*step)[0] * Dim(i));
    result.contents = std::move(contents);
  }
  return {result};
}

// --- Fill
std::vector<Tensor> evaluate_fill(const Fill& op, const EvaluateContext& context) {
  Tensor result =
      allocate_result(op.dtype, op.shape ? context.extents(*op.shape) : context.input(0).to_int64s());
  if (op.value == 0) return {result};
  const ElementWriter writer(result);
  constexpr int64_t kPiece = 4096;
  const std::vector<double> values(kPiece, op.value);
  // In pieces, with integers as integers: a double cannot hold all of them, but op.value is one already.
  context.parallel_for((result.size() + kPiece - 1) / kPiece, 16, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      writer.store_doubles(piece * kPiece, std::min(kPiece, result.size() - piece * kPiece), values.data());
    }
  });
  return {result};
}

std::vector<ResultInfo> infer_fill(const Fill& op, const InferContext& context) {
  if (op.dtype == DType::Undefined) throw_input_error("the type of the result is not set");
  const auto shape = op.shape ? op.shape : known_integers(context, 0, "the shape");
  if (!shape) {
    return {{op.dtype, data_dependent_shape(context, shape_input_length(context, 0), kUnboundedUpper)}};
  }
  for (const Dim& dim : *shape) {
    if (dim.is_constant() && dim.value() < 0)
      throw_input_error("a dim of " + to_string(*shape) + " is negative");
  }
  ResultInfo result{op.dtype, *shape};
  if (is_integer(op.dtype) && is_static(*shape) && element_count(to_extents(*shape)) <= kMaxContents) {
    result.contents =
        Shape(static_cast<size_t>(element_count(to_extents(*shape))), static_cast<int64_t>(op.value));
  }
  return {result};
}

}  // namespace

std::vector<OpDef> shape_of_ops() {
  return {op_def<ShapeTensor, infer_shape_tensor, evaluate_shape_tensor>(no_flops),
          op_def<ShapeOf, infer_shape_of, evaluate_shape_of>(no_flops),
          op_def<Range, infer_range, evaluate_range>(no_flops),
          op_def<Fill, infer_fill, evaluate_fill>(no_flops)};
}

}  // namespace lathe
