// SPDX-License-Identifier: Apache-2.0
//
// Reshape: the same bytes, other extents. Nothing moves, so evaluation shares the input's bytes.
#include <string>

#include "base/error.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

std::vector<Tensor> evaluate_reshape(const ReshapeOp& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  Extents extents;
  if (op.shape) {
    extents = context.extents(*op.shape);
  } else {
    const Shape requested = to_shape(context.input(1).to_int64s());
    extents = to_extents(resolve_reshape(to_shape(x.extents()), requested, op.allow_zero));
  }
  if (element_count(extents) != x.size()) {
    throw_input_error("cannot reshape " + to_string(x.extents()) + " to " + to_string(extents) +
                      ": the number of elements differs");
  }
  return {x.reshaped(std::move(extents))};
}

// No dim is larger than the number of elements, unless there are none: 0 then copies a dim, or is one beside
// which any may stand.
Dim largest_dim(const ReshapeOp& op, const Shape& x) {
  if (op.allow_zero) return kUnboundedUpper;
  Dim most = element_count(x);
  for (const Dim& d : x) most = max(most, d);
  return most;
}

Shape reshaped_shape(const ReshapeOp& op, const InferContext& context) {
  const Value& x = context.input(0);
  if (op.shape) return resolve_reshape(x.shape, *op.shape, true);
  if (const auto requested = known_integers(context, 1, "the shape"))
    return resolve_reshape(x.shape, *requested, op.allow_zero);
  const int64_t rank = shape_input_length(context, 1);
  if (rank == 0)
    return resolve_reshape(x.shape, {}, op.allow_zero);  // no entries: known without their values
  return data_dependent_shape(context, rank, largest_dim(op, x.shape));
}

std::vector<ResultInfo> infer_reshape(const ReshapeOp& op, const InferContext& context) {
  ResultInfo result{context.input(0).dtype, reshaped_shape(op, context)};
  // The order of elements does not change: the contents stay as they are.
  if (is_static(result.shape)) result.contents = context.contents(0);
  return {result};
}

}  // namespace

std::vector<OpDef> reshape_ops() {
  return {op_def<ReshapeOp, infer_reshape, evaluate_reshape>(no_flops)};
}

}  // namespace lathe
