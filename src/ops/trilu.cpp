// SPDX-License-Identifier: Apache-2.0
//
// Trilu keeps one side of a diagonal and OneHot sets one element of each row: both write elements by position
// alone.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

// --- Trilu
std::vector<Tensor> trilu(const Trilu& op, int64_t k, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  Tensor result = allocate_result(x.dtype(), x.extents());
  if (result.size() == 0) return {result};
  const int64_t columns = x.extents().back(), rows = x.extents()[x.extents().size() - 2];
  // Beyond the matrix all ks mean the same; clamped, the sums below cannot overflow.
  k = std::clamp(k, -rows - 1, columns + 1);
  const int64_t bytes = element_bytes(x.dtype());
  const std::byte* from = x.bytes().data();
  std::byte* to = result.mutable_bytes().data();  // zero already
  context.parallel_for(
      result.size() / columns, std::max<int64_t>(1, (1 << 14) / columns), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t diagonal = row % rows + k;
          const int64_t first = op.upper ? std::clamp<int64_t>(diagonal, 0, columns) : 0;
          const int64_t last = op.upper ? columns : std::clamp<int64_t>(diagonal + 1, 0, columns);
          const int64_t offset = (row * columns + first) * bytes;
          std::memcpy(to + offset, from + offset, static_cast<size_t>((last - first) * bytes));
        }
      });
  return {result};
}

std::vector<Tensor> evaluate_trilu(const Trilu& op, const EvaluateContext& context) {
  int64_t k = 0;
  if (context.has(1)) {
    if (context.input(1).size() != 1) throw_input_error("k must have one element");
    k = context.input(1).to_int64s()[0];
  }
  return move_elements(context, [&](const EvaluateContext& c) { return trilu(op, k, c); });
}

std::vector<ResultInfo> infer_trilu(const Trilu&, const InferContext& context) {
  const Value& x = context.input(0);
  if (x.shape.size() < 2)
    throw_input_error("the input must have at least two dims, it has " + to_string(x.shape));
  if (context.has(1)) {
    expect_dtype(context, 1, "k", DType::Int64);
    expect_elements(context, 1, "k", 1);
  }
  return {{x.dtype, x.shape}};
}

// --- OneHot
int64_t one_hot_axis(const OneHot& op, int64_t rank) {
  return normalize_axis(op.axis, rank + 1, "OneHot");
}

std::vector<Tensor> evaluate_one_hot(const OneHot& op, const EvaluateContext& context) {
  const Tensor &indices = context.input(0), &values = context.input(2);
  if (context.input(1).size() != 1) throw_input_error("depth must have one element");
  if (values.size() != 2) throw_input_error("values must have two elements, off and on");
  const int64_t depth = context.input(1).to_int64s()[0];
  if (depth < 0) throw_input_error("a depth of " + std::to_string(depth) + " is negative");
  const auto axis = static_cast<size_t>(one_hot_axis(op, indices.rank()));
  Extents extents = indices.extents();
  extents.insert(extents.begin() + static_cast<ptrdiff_t>(axis), depth);
  Tensor result = allocate_result(values.dtype(), extents);
  int64_t inner = 1;
  for (size_t d = axis + 1; d < extents.size(); ++d) inner *= extents[d];
  const int64_t bytes = element_bytes(values.dtype());
  std::byte* to = result.mutable_bytes().data();
  const std::byte *off = values.bytes().data(), *on = off + bytes;
  for (int64_t i = 0; i < result.size(); ++i) std::memcpy(to + i * bytes, off, static_cast<size_t>(bytes));
  const std::vector<int64_t> hot = indices.to_int64s();  // float indices are allowed
  for (int64_t i = 0; i < indices.size(); ++i) {
    const int64_t index = hot[static_cast<size_t>(i)];
    if (index < -depth || index >= depth) continue;  // ONNX: such a row stays off
    const int64_t at = (i / inner * depth + (index < 0 ? index + depth : index)) * inner + i % inner;
    std::memcpy(to + at * bytes, on, static_cast<size_t>(bytes));
  }
  return {result};
}

std::vector<ResultInfo> infer_one_hot(const OneHot& op, const InferContext& context) {
  const Value& indices = context.input(0);
  const auto axis = static_cast<ptrdiff_t>(one_hot_axis(op, context.rank(0)));
  if (dtype_info(context.input(2).dtype).bits < 8) throw_input_error("values of four bits are not supported");
  expect_elements(context, 1, "depth", 1);
  expect_elements(context, 2, "values (off and on)", 2);
  std::optional<Shape> depth = context.contents(1);
  if (!depth && context.input(1).is_constant() && context.input(1).constant.size() == 1) {
    depth = to_shape(context.input(1).constant.to_int64s());  // a float depth
  }
  Shape shape = indices.shape;
  const bool known = depth && depth->size() == 1;
  shape.insert(shape.begin() + axis,
               known ? (*depth)[0] : Dim::data_dependent(context.dim_name("depth"), kUnboundedUpper));
  return {{context.input(2).dtype, shape}};
}

}  // namespace

std::vector<OpDef> trilu_ops() {
  return {op_def<Trilu, infer_trilu, evaluate_trilu>(no_flops),
          op_def<OneHot, infer_one_hot, evaluate_one_hot>(no_flops)};
}

}  // namespace lathe
