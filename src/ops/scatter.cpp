// SPDX-License-Identifier: Apache-2.0
//
// ScatterElements and ScatterND: a copy of the data in which the updates replace, or are combined with, what
// the indices address. One after the other, in the order of the updates, so duplicates combine and the last
// one wins without a reduction.
#include <cstring>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/families.h"
#include "ops/index.h"
#include "ops/movement.h"

namespace lathe {
namespace {

template <class Codec>
typename Codec::Wide combined(ScatterReduction reduction, typename Codec::Wide a, typename Codec::Wide b) {
  using Wide = typename Codec::Wide;
  switch (reduction) {
    case ScatterReduction::None:
      return b;
    case ScatterReduction::Add:
      if constexpr (Codec::kFloat) return a + b;
      return static_cast<Wide>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));  // wraps around
    case ScatterReduction::Mul:
      if constexpr (Codec::kFloat) return a * b;
      return static_cast<Wide>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case ScatterReduction::Min:
      return b < a || b != b ? b : a;  // NaN wins
    case ScatterReduction::Max:
      return b > a || b != b ? b : a;
  }
  return b;
}

// target[at(i)] = combine(target[at(i)], updates[i]) for `count` blocks of `block` elements.
template <class At>
void scatter_blocks(Tensor& target, const Tensor& updates, ScatterReduction reduction, int64_t count,
                    int64_t block, At&& at) {
  std::byte* to = target.mutable_bytes().data();
  const std::byte* from = updates.bytes().data();
  if (reduction == ScatterReduction::None) {
    const int64_t bytes = block * element_bytes(target.dtype());
    if (bytes == 0) return;
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + at(i) * bytes, from + i * bytes, static_cast<size_t>(bytes));
    return;
  }
  with_codec(target.dtype(), [&]<class Codec>() {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = at(i) * block;
      for (int64_t k = 0; k < block; ++k) {
        const auto old = Codec::get(to, begin + k), update = Codec::get(from, i * block + k);
        Codec::put(to, begin + k, combined<Codec>(reduction, old, update));
      }
    }
  });
}

Tensor copy_of(const Tensor& x) {
  Tensor copy = allocate_result(x.dtype(), x.extents());
  std::memcpy(copy.mutable_bytes().data(), x.bytes().data(), x.bytes().size());
  return copy;
}

void check_types(const InferContext& context, ScatterReduction reduction) {
  const Value &x = context.input(0), &updates = context.input(2);
  check_index_type(context.input(1));
  if (x.dtype != updates.dtype) {
    throw_input_error("data and updates have types " + std::string(dtype_name(x.dtype)) + " and " +
                      std::string(dtype_name(updates.dtype)) + "; they must be equal");
  }
  if (x.dtype == DType::Bool && reduction != ScatterReduction::None) {
    throw_input_error("the reduction " + std::string(enum_name(reduction)) + " is not defined for bool");
  }
}

// --- ScatterElements
std::vector<Tensor> evaluate_scatter_elements(const ScatterElements& op, const EvaluateContext& context) {
  const Tensor &x = context.input(0), &indices = context.input(1);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, x.rank(), "ScatterElements"));
  check_fits_inside(indices.extents(), x.extents(), axis);
  if (context.input(2).extents() != indices.extents()) {
    throw_input_error("updates of " + to_string(context.input(2).extents()) + " for indices of " +
                      to_string(indices.extents()) + ": they must have the same shape");
  }
  const std::vector<int64_t> wrapped = wrapped_indices(indices, x.extents()[axis]);
  return move_elements(context, [&](const EvaluateContext& c) -> std::vector<Tensor> {
    Tensor result = copy_of(c.input(0));
    const Extents& extents = indices.extents();
    const Extents strides = row_major_strides(x.extents());
    scatter_blocks(result, c.input(2), op.reduction, indices.size(), 1, [&](int64_t i) {
      int64_t offset = wrapped[static_cast<size_t>(i)] * strides[axis];
      for (size_t d = extents.size(); d-- > 0; i /= extents[d]) {
        if (d != axis) offset += i % extents[d] * strides[d];
      }
      return offset;
    });
    return {result};
  });
}

std::vector<ResultInfo> infer_scatter_elements(const ScatterElements& op, const InferContext& context) {
  check_types(context, op.reduction);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, context.rank(0), "ScatterElements"));
  check_fits_inside(context.input(1).shape, context.input(0).shape, axis);
  if (context.rank(1) != context.rank(2)) throw_input_error("indices and updates must have the same shape");
  ResultInfo result{context.input(0).dtype, context.input(0).shape};
  if (op.reduction == ScatterReduction::None && is_static(result.shape)) {
    result.contents = moved_contents(context, {0, 2}, bind_evaluation(evaluate_scatter_elements, op))[0];
  }
  return {result};
}

// --- ScatterND
template <class S>
S expected_updates(const S& indices, const S& x, size_t addressed) {
  S shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), x.begin() + static_cast<ptrdiff_t>(addressed), x.end());
  return shape;
}

std::vector<Tensor> evaluate_scatter_nd(const ScatterND& op, const EvaluateContext& context) {
  const Tensor &x = context.input(0), &indices = context.input(1);
  const BlockIndices blocks = block_indices(indices, x.extents(), 0);
  const Extents expected = expected_updates(indices.extents(), x.extents(), blocks.addressed_dims);
  if (context.input(2).extents() != expected) {
    throw_input_error("updates of " + to_string(context.input(2).extents()) + ", expected " +
                      to_string(expected) + " for these indices");
  }
  return move_elements(context, [&](const EvaluateContext& c) -> std::vector<Tensor> {
    Tensor result = copy_of(c.input(0));
    scatter_blocks(result, c.input(2), op.reduction, static_cast<int64_t>(blocks.blocks.size()),
                   blocks.block_size, [&](int64_t i) { return blocks.blocks[static_cast<size_t>(i)]; });
    return {result};
  });
}

std::vector<ResultInfo> infer_scatter_nd(const ScatterND& op, const InferContext& context) {
  check_types(context, op.reduction);
  const Value &x = context.input(0), &indices = context.input(1), &updates = context.input(2);
  const auto addressed = static_cast<size_t>(addressed_dims(indices.shape, x.shape, 0));
  const Shape expected = expected_updates(indices.shape, x.shape, addressed);
  if (updates.shape.size() != expected.size()) {
    throw_input_error("updates of " + to_string(updates.shape) + ", expected " + to_string(expected) +
                      " for these indices");
  }
  ResultInfo result{x.dtype, x.shape};
  if (op.reduction == ScatterReduction::None && is_static(result.shape)) {
    result.contents = moved_contents(context, {0, 2}, bind_evaluation(evaluate_scatter_nd, op))[0];
  }
  return {result};
}

double scatter_flops(const Op&, const CostContext& context) {
  return static_cast<double>(element_count(context.inputs[2]));
}

}  // namespace

std::vector<OpDef> scatter_ops() {
  return {op_def<ScatterElements, infer_scatter_elements, evaluate_scatter_elements>(scatter_flops),
          op_def<ScatterND, infer_scatter_nd, evaluate_scatter_nd>(scatter_flops)};
}

}  // namespace lathe
