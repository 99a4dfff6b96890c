// SPDX-License-Identifier: Apache-2.0
//
// Gather, GatherElements, GatherND: an index tensor says which elements, or blocks of elements, come next.
// Negative indices count from the end; everything else outside the dim is refused before it is used.
#include <cstring>
#include <string>

#include "base/error.h"
#include "ops/families.h"
#include "ops/index.h"
#include "ops/movement.h"

namespace lathe {
namespace {

Extents joined(std::initializer_list<std::pair<const Extents*, std::pair<size_t, size_t>>> parts) {
  Extents all;
  for (const auto& [extents, range] : parts) {
    all.insert(all.end(), extents->begin() + static_cast<ptrdiff_t>(range.first),
               extents->begin() + static_cast<ptrdiff_t>(range.second));
  }
  return all;
}

int64_t count_of(const Extents& extents, size_t begin, size_t end) {
  return element_count(joined({{&extents, {begin, end}}}));
}

// --- Gather: blocks of `inner` elements along one axis
std::vector<Tensor> gathered(const Gather& op, const std::vector<int64_t>& indices,
                             const Extents& index_extents, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  const Extents& in = x.extents();
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, x.rank(), "Gather"));
  Tensor result = allocate_result(
      x.dtype(),
      joined({{&in, {0, axis}}, {&index_extents, {0, index_extents.size()}}, {&in, {axis + 1, in.size()}}}));
  const int64_t bytes = count_of(in, axis + 1, in.size()) * element_bytes(x.dtype());
  const auto per_outer = static_cast<int64_t>(indices.size());
  if (result.size() == 0) return {result};
  const std::byte* from = x.bytes().data();
  std::byte* to = result.mutable_bytes().data();
  const int64_t blocks = count_of(in, 0, axis) * per_outer;
  context.parallel_for(blocks, std::max<int64_t>(1, (1 << 14) / bytes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = indices[static_cast<size_t>(i % per_outer)];
      std::memcpy(to + i * bytes, from + (i / per_outer * in[axis] + index) * bytes,
                  static_cast<size_t>(bytes));
    }
  });
  return {result};
}

std::vector<Tensor> evaluate_gather(const Gather& op, const EvaluateContext& context) {
  const Tensor &x = context.input(0), &indices = context.input(1);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, x.rank(), "Gather"));
  const std::vector<int64_t> wrapped = wrapped_indices(indices, x.extents()[axis]);
  return move_elements(context,
                       [&](const EvaluateContext& c) { return gathered(op, wrapped, indices.extents(), c); });
}

std::vector<ResultInfo> infer_gather(const Gather& op, const InferContext& context) {
  const Value &x = context.input(0), &indices = context.input(1);
  const auto axis = static_cast<ptrdiff_t>(normalize_axis(op.axis, context.rank(0), "Gather"));
  check_index_type(indices);
  // A view of one index and a slice made of it check nothing when they run.
  check_known_indices(context.contents(1), x.shape[static_cast<size_t>(axis)]);
  ResultInfo result{x.dtype, Shape(x.shape.begin(), x.shape.begin() + axis)};
  result.shape.insert(result.shape.end(), indices.shape.begin(), indices.shape.end());
  result.shape.insert(result.shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  if (is_static(result.shape))
    result.contents = moved_contents(context, {0}, bind_evaluation(evaluate_gather, op))[0];
  return {result};
}

// --- GatherElements: result[i][j] = x[indices[i][j]][j] for axis 0
std::vector<Tensor> gathered_elements(size_t axis, const std::vector<int64_t>& indices,
                                      const Extents& index_extents, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  Tensor result = allocate_result(x.dtype(), index_extents);
  const Extents strides = row_major_strides(x.extents());
  const int64_t bytes = element_bytes(x.dtype());
  const std::byte* from = x.bytes().data();
  std::byte* to = result.mutable_bytes().data();
  context.parallel_for(result.size(), 1 << 13, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t offset = indices[static_cast<size_t>(i)] * strides[axis], rest = i;
      for (size_t d = index_extents.size(); d-- > 0; rest /= index_extents[d]) {
        if (d != axis) offset += rest % index_extents[d] * strides[d];
      }
      std::memcpy(to + i * bytes, from + offset * bytes, static_cast<size_t>(bytes));
    }
  });
  return {result};
}

std::vector<Tensor> evaluate_gather_elements(const GatherElements& op, const EvaluateContext& context) {
  const Tensor &x = context.input(0), &indices = context.input(1);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, x.rank(), "GatherElements"));
  check_fits_inside(indices.extents(), x.extents(), axis);
  const std::vector<int64_t> wrapped = wrapped_indices(indices, x.extents()[axis]);
  return move_elements(context, [&](const EvaluateContext& c) {
    return gathered_elements(axis, wrapped, indices.extents(), c);
  });
}

std::vector<ResultInfo> infer_gather_elements(const GatherElements& op, const InferContext& context) {
  const Value &x = context.input(0), &indices = context.input(1);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, context.rank(0), "GatherElements"));
  check_index_type(indices);
  check_fits_inside(indices.shape, x.shape, axis);
  ResultInfo result{x.dtype, indices.shape};
  if (is_static(result.shape)) {
    result.contents = moved_contents(context, {0}, bind_evaluation(evaluate_gather_elements, op))[0];
  }
  return {result};
}

// --- GatherND: the last dim of indices addresses a block
std::vector<Tensor> evaluate_gather_nd(const GatherND& op, const EvaluateContext& context) {
  const Tensor &x = context.input(0), &indices = context.input(1);
  const BlockIndices blocks = block_indices(indices, x.extents(), op.batch_dims);
  return move_elements(context, [&](const EvaluateContext& c) -> std::vector<Tensor> {
    const Tensor& from = c.input(0);
    const Extents &in = from.extents(), &index_extents = indices.extents();
    Tensor result = allocate_result(from.dtype(), joined({{&index_extents, {0, index_extents.size() - 1}},
                                                          {&in, {blocks.addressed_dims, in.size()}}}));
    if (result.size() == 0) return {result};
    const int64_t bytes = blocks.block_size * element_bytes(from.dtype());
    const std::byte* source = from.bytes().data();
    std::byte* to = result.mutable_bytes().data();
    const auto count = static_cast<int64_t>(blocks.blocks.size());
    c.parallel_for(count, std::max<int64_t>(1, (1 << 14) / bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(to + i * bytes, source + blocks.blocks[static_cast<size_t>(i)] * bytes,
                    static_cast<size_t>(bytes));
      }
    });
    return {result};
  });
}

std::vector<ResultInfo> infer_gather_nd(const GatherND& op, const InferContext& context) {
  const Value &x = context.input(0), &indices = context.input(1);
  check_index_type(indices);
  const int64_t addressed = addressed_dims(indices.shape, x.shape, op.batch_dims);
  ResultInfo result{x.dtype, Shape(indices.shape.begin(), indices.shape.end() - 1)};
  result.shape.insert(result.shape.end(), x.shape.begin() + static_cast<ptrdiff_t>(addressed), x.shape.end());
  if (is_static(result.shape))
    result.contents = moved_contents(context, {0}, bind_evaluation(evaluate_gather_nd, op))[0];
  return {result};
}

}  // namespace

std::vector<OpDef> gather_ops() {
  return {op_def<Gather, infer_gather, evaluate_gather>(no_flops),
          op_def<GatherElements, infer_gather_elements, evaluate_gather_elements>(no_flops),
          op_def<GatherND, infer_gather_nd, evaluate_gather_nd>(no_flops)};
}

}  // namespace lathe
