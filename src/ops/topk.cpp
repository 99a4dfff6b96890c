// SPDX-License-Identifier: Apache-2.0
//
// TopK and ArgReduce: positions of the largest or smallest elements of each line along an axis. Among equals
// the lower index comes first (ArgReduce may ask for the last). NaN counts as the largest, as in numpy: it
// must not upset the order.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

// a before b in ascending order.
template <class T>
bool ascends(T a, T b) {
  if (a != a) return false;
  return b != b || a < b;
}

// The elements of one line.
template <class Codec>
std::vector<typename Codec::Wide> line_of(const std::byte* data, int64_t first, int64_t count,
                                          int64_t stride) {
  std::vector<typename Codec::Wide> line(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) line[static_cast<size_t>(i)] = Codec::get(data, first + i * stride);
  return line;
}

// Calls f(line number, first element) for all lines along the axis.
template <class F>
void for_each_line(const EvaluateContext& context, const Extents& extents, size_t axis, F&& f) {
  const int64_t count = extents[axis], stride = row_major_strides(extents)[axis];
  const int64_t lines = count == 0 ? 0 : element_count(extents) / count;
  context.parallel_for(lines, std::max<int64_t>(1, 2048 / std::max<int64_t>(1, count)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t line = begin; line < end; ++line)
                           f(line, line / stride * stride * count + line % stride);
                       });
}

// --- TopK
template <class Wide>
std::vector<int64_t> top_positions(const std::vector<Wide>& line, int64_t k, bool largest) {
  std::vector<int64_t> order(line.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const auto before = [&](int64_t a, int64_t b) {
    const Wide x = line[static_cast<size_t>(a)], y = line[static_cast<size_t>(b)];
    if (largest ? ascends(y, x) : ascends(x, y)) return true;
    return !(largest ? ascends(x, y) : ascends(y, x)) && a < b;
  };
  // Sorted in any case: sorted = 0 leaves the order open.
  std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
  order.resize(static_cast<size_t>(k));
  return order;
}

std::vector<Tensor> evaluate_topk(const TopK& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  if (context.input(1).size() != 1) throw_input_error("k must have one element");
  const int64_t k = context.input(1).to_int64s()[0];
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, x.rank(), "TopK"));
  if (k < 0 || k > x.extents()[axis]) {
    throw_input_error("k = " + std::to_string(k) + " is not between 0 and the " +
                      std::to_string(x.extents()[axis]) + " elements of axis " + std::to_string(axis));
  }
  Extents extents = x.extents();
  extents[axis] = k;
  Tensor values = allocate_result(x.dtype(), extents), indices = allocate_result(DType::Int64, extents);
  const int64_t count = x.extents()[axis], stride = row_major_strides(x.extents())[axis];
  const std::byte* from = x.bytes().data();
  std::byte* to = values.mutable_bytes().data();
  int64_t* positions = indices.mutable_data<int64_t>().data();
  if (k == 0) return {values, indices};
  with_codec(x.dtype(), [&]<class Codec>() {
    for_each_line(context, x.extents(), axis, [&](int64_t line, int64_t first) {
      const auto elements = line_of<Codec>(from, first, count, stride);
      const std::vector<int64_t> top = top_positions(elements, k, op.largest);
      const int64_t out = line / stride * stride * k + line % stride;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t at = top[static_cast<size_t>(i)];
        Codec::put(to, out + i * stride, elements[static_cast<size_t>(at)]);
        positions[out + i * stride] = at;
      }
    });
  });
  return {values, indices};
}

std::vector<ResultInfo> infer_topk(const TopK& op, const InferContext& context) {
  const Value& x = context.input(0);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, context.rank(0), "TopK"));
  if (x.dtype == DType::Bool || dtype_info(x.dtype).bits < 8) {
    throw_input_error("the order of " + std::string(dtype_name(x.dtype)) + " elements is not defined");
  }
  expect_elements(context, 1, "k", 1);
  Shape shape = x.shape;
  const auto k = known_integers(context, 1, "k");
  shape[axis] = k && k->size() == 1 ? (*k)[0] : Dim::data_dependent(context.dim_name("k"), x.shape[axis]);
  if (shape[axis].is_constant() &&
      (shape[axis].value() < 0 ||
       (x.shape[axis].is_constant() && shape[axis].value() > x.shape[axis].value()))) {
    throw_input_error("k = " + shape[axis].to_string() + " is not between 0 and the " +
                      x.shape[axis].to_string() + " elements of axis " + std::to_string(axis));
  }
  return {{x.dtype, shape}, {DType::Int64, shape}};
}

// --- ArgReduce
std::vector<Tensor> evaluate_arg_reduce(const ArgReduce& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, x.rank(), "ArgReduce"));
  Extents extents = x.extents();
  const int64_t count = extents[axis], stride = row_major_strides(x.extents())[axis];
  extents[axis] = 1;
  if (count == 0 && element_count(extents) > 0) {
    throw_input_error("axis " + std::to_string(axis) + " has no elements to choose from");
  }
  if (!op.keepdims) extents.erase(extents.begin() + static_cast<ptrdiff_t>(axis));
  Tensor result = allocate_result(DType::Int64, extents);
  int64_t* to = result.mutable_data<int64_t>().data();
  with_codec(x.dtype(), [&]<class Codec>() {
    for_each_line(context, x.extents(), axis, [&](int64_t line, int64_t first) {
      const auto elements = line_of<Codec>(x.bytes().data(), first, count, stride);
      size_t best = 0;
      for (size_t i = 1; i < elements.size(); ++i) {
        const auto a = elements[best], b = elements[i];
        // For the smallest, numpy lets NaN win too.
        const bool nan_wins = b != b && a == a;
        const bool better = nan_wins || (a == a && (op.max ? b > a : b < a));
        const bool equal = a == b || (a != a && b != b);
        if (better || (op.select_last_index && equal)) best = i;
      }
      to[line] = static_cast<int64_t>(best);
    });
  });
  return {result};
}

std::vector<ResultInfo> infer_arg_reduce(const ArgReduce& op, const InferContext& context) {
  const auto axis = static_cast<ptrdiff_t>(normalize_axis(op.axis, context.rank(0), "ArgReduce"));
  Shape shape = context.input(0).shape;
  if (op.keepdims) {
    shape[static_cast<size_t>(axis)] = 1;
  } else {
    shape.erase(shape.begin() + axis);
  }
  return {{DType::Int64, shape}};
}

double compare_each_input(const Op&, const CostContext& context) {
  return static_cast<double>(element_count(context.inputs[0]));
}

}  // namespace

std::vector<OpDef> topk_ops() {
  return {op_def<TopK, infer_topk, evaluate_topk>(compare_each_input),
          op_def<ArgReduce, infer_arg_reduce, evaluate_arg_reduce>(compare_each_input)};
}

}  // namespace lathe
