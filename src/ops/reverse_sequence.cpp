// SPDX-License-Identifier: Apache-2.0
//
// ReverseSequence turns the first `lengths[b]` steps of item b around and leaves the rest (the padding) where
// it is: a copy of rows, each from a place that its batch and time index say.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"

namespace lathe {
namespace {

struct Axes {
  size_t batch, time;
};

Axes axes_of(const ReverseSequence& op, int64_t rank) {
  const auto batch = normalize_axis(op.batch_axis, rank, "batch_axis");
  const auto time = normalize_axis(op.time_axis, rank, "time_axis");
  if (batch == time) throw_input_error("batch_axis and time_axis are both " + std::to_string(time));
  return {static_cast<size_t>(batch), static_cast<size_t>(time)};
}

std::vector<int64_t> checked_lengths(const Tensor& lengths, int64_t items, int64_t steps) {
  if (lengths.rank() != 1 || lengths.size() != items)
    throw_input_error("the lengths must be one for each of the " + std::to_string(items) +
                      " items, they are " + to_string(lengths.extents()));
  std::vector<int64_t> values = lengths.to_int64s();
  for (const int64_t length : values)
    if (length < 0 || length > steps)
      throw_input_error("a length of " + std::to_string(length) + " is not between 0 and the " +
                        std::to_string(steps) + " steps");
  return values;
}

std::vector<Tensor> reverse(const ReverseSequence& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  const Extents& extents = x.extents();
  const Axes axes = axes_of(op, x.rank());
  const std::vector<int64_t> lengths =
      checked_lengths(context.input(1), extents[axes.batch], extents[axes.time]);
  Tensor result = allocate_result(x.dtype(), extents);
  if (result.size() == 0) return {result};
  // Rows: what lies behind the later of the two axes.
  const Extents strides = row_major_strides(extents);
  const int64_t row = strides[std::max(axes.batch, axes.time)], bytes = row * element_bytes(x.dtype());
  const std::byte* from = x.bytes().data();
  std::byte* to = result.mutable_bytes().data();
  context.parallel_for(
      result.size() / row, std::max<int64_t>(1, (1 << 14) / row), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const auto index = [&](size_t axis) { return i * row / strides[axis] % extents[axis]; };
          const int64_t step = index(axes.time), length = lengths[static_cast<size_t>(index(axes.batch))];
          const int64_t source = step < length ? i + (length - 1 - 2 * step) * (strides[axes.time] / row) : i;
          std::memcpy(to + i * bytes, from + source * bytes, static_cast<size_t>(bytes));
        }
      });
  return {result};
}

std::vector<Tensor> evaluate_reverse_sequence(const ReverseSequence& op, const EvaluateContext& context) {
  return move_elements(context, [&](const EvaluateContext& c) { return reverse(op, c); });
}

std::vector<ResultInfo> infer_reverse_sequence(const ReverseSequence& op, const InferContext& context) {
  const Value &x = context.input(0), &lengths = context.input(1);
  if (x.shape.size() < 2)
    throw_input_error("the input must have at least two dims, it has " + to_string(x.shape));
  if (lengths.dtype != DType::Int64)
    throw_input_error("the lengths must be int64, they are " + std::string(dtype_name(lengths.dtype)));
  expect_shape(context, 1, "the lengths", {x.shape[axes_of(op, context.rank(0)).batch]});
  return {{x.dtype, x.shape}};
}

}  // namespace

std::vector<OpDef> reverse_sequence_ops() {
  return {op_def<ReverseSequence, infer_reverse_sequence, evaluate_reverse_sequence>(no_flops)};
}

}  // namespace lathe
