// SPDX-License-Identifier: Apache-2.0
//
// Expand and Tile: elements repeat. Expand reads along a repeated dim with stride 0; Tile sees each dim as
// (repeat, dim) and does the same with the repeat.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

// --- Expand
std::vector<Tensor> evaluate_expand(const Expand& op, const EvaluateContext& context) {
  return move_elements(context, [&](const EvaluateContext& c) -> std::vector<Tensor> {
    const Tensor& x = c.input(0);
    const Shape requested = to_shape(op.shape ? c.extents(*op.shape) : c.input(1).to_int64s());
    const Extents extents = to_extents(expand_shape(to_shape(x.extents()), requested));
    const Extents strides = row_major_strides(x.extents());
    const size_t added = extents.size() - x.extents().size();
    StridedSource source{0, Extents(extents.size(), 0)};
    for (size_t d = 0; d < strides.size(); ++d) {
      if (x.extents()[d] != 1) source.strides[added + d] = strides[d];
    }
    return {gather_strided(c, x, source, extents)};
  });
}

std::vector<ResultInfo> infer_expand(const Expand& op, const InferContext& context) {
  const Value& x = context.input(0);
  ResultInfo result{x.dtype, {}};
  const auto requested = op.shape ? op.shape : known_integers(context, 1, "the shape");
  if (!requested) {
    const int64_t rank = std::max(shape_input_length(context, 1), context.rank(0));
    result.shape = data_dependent_shape(context, rank, kUnboundedUpper);
    return {result};
  }
  result.shape = expand_shape(x.shape, *requested);
  if (is_static(result.shape))
    result.contents = moved_contents(context, {0}, bind_evaluation(evaluate_expand, op))[0];
  return {result};
}

// --- Tile
void check_repeats(size_t rank, const Shape& repeats) {
  if (repeats.size() != rank) {
    throw_input_error("repeats has " + std::to_string(repeats.size()) + " entries, the input has " +
                      std::to_string(rank) + " dims: there must be one per dim");
  }
  for (const Dim& repeat : repeats) {
    if (repeat.is_constant() && repeat.value() < 0) {
      throw_input_error("a repeat of " + repeat.to_string() + " is negative");
    }
  }
}

std::vector<Tensor> evaluate_tile(const Tile& op, const EvaluateContext& context) {
  return move_elements(context, [&](const EvaluateContext& c) -> std::vector<Tensor> {
    const Tensor& x = c.input(0);
    const Extents repeats = op.repeats ? c.extents(*op.repeats) : c.input(1).to_int64s();
    check_repeats(x.extents().size(), to_shape(repeats));
    const Extents strides = row_major_strides(x.extents());
    Extents pairs, extents;
    StridedSource source;
    for (size_t d = 0; d < repeats.size(); ++d) {
      pairs.insert(pairs.end(), {repeats[d], x.extents()[d]});
      source.strides.insert(source.strides.end(), {0, strides[d]});
      extents.push_back((Dim(repeats[d]) * Dim(x.extents()[d])).value());  // Dim refuses what overflows
    }
    return {gather_strided(c, x, source, pairs).reshaped(extents)};
  });
}

std::vector<ResultInfo> infer_tile(const Tile& op, const InferContext& context) {
  const Value& x = context.input(0);
  ResultInfo result{x.dtype, {}};
  const auto repeats = op.repeats ? op.repeats : known_integers(context, 1, "the repeats");
  if (!repeats) {
    expect_list(context, 1, "the repeats", context.rank(0));
    result.shape = data_dependent_shape(context, context.rank(0), kUnboundedUpper);
    return {result};
  }
  check_repeats(x.shape.size(), *repeats);
  for (size_t d = 0; d < repeats->size(); ++d) result.shape.push_back(x.shape[d] * (*repeats)[d]);
  if (is_static(result.shape))
    result.contents = moved_contents(context, {0}, bind_evaluation(evaluate_tile, op))[0];
  return {result};
}

}  // namespace

std::vector<OpDef> expand_ops() {
  return {op_def<Expand, infer_expand, evaluate_expand>(no_flops),
          op_def<Tile, infer_tile, evaluate_tile>(no_flops)};
}

}  // namespace lathe
