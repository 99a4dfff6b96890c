// SPDX-License-Identifier: Apache-2.0
//
// Concat and Split: seen from the axis, a tensor is `outer` blocks of axis * inner elements, and both
// operators copy whole pieces of those blocks.
#include <cstring>
#include <string>

#include "base/error.h"
#include "ops/families.h"
#include "ops/movement.h"

namespace lathe {
namespace {

// Elements before and after the axis.
int64_t outer_count(const Extents& extents, size_t axis) {
  return element_count(Extents(extents.begin(), extents.begin() + static_cast<ptrdiff_t>(axis)));
}
int64_t inner_count(const Extents& extents, size_t axis) {
  return element_count(Extents(extents.begin() + static_cast<ptrdiff_t>(axis) + 1, extents.end()));
}

// Copies `count` pieces of `bytes` between two buffers with a pitch each.
void copy_pieces(const EvaluateContext& context, const std::byte* in, int64_t in_pitch, std::byte* out,
                 int64_t out_pitch, int64_t bytes, int64_t count) {
  if (bytes == 0) return;
  context.parallel_for(count, std::max<int64_t>(1, (1 << 16) / bytes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(out + i * out_pitch, in + i * in_pitch, static_cast<size_t>(bytes));
    }
  });
}

// --- Concat
std::vector<Tensor> concatenated(const Concat& op, const EvaluateContext& context) {
  const Tensor& first = context.input(0);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, first.rank(), "Concat"));
  Extents extents = first.extents();
  extents[axis] = 0;
  for (const Tensor& input : context.inputs) {
    Extents others = input.extents();
    check(input.rank() == first.rank() && input.dtype() == first.dtype(), "Concat: ranks or types differ");
    extents[axis] += others[axis];
    others[axis] = extents[axis];
    if (others != extents) {
      throw_input_error("cannot join " + to_string(first.extents()) + " and " + to_string(input.extents()) +
                        " along axis " + std::to_string(axis) + ": the other dims differ");
    }
  }
  Tensor result = allocate_result(first.dtype(), extents);
  const int64_t unit = inner_count(extents, axis) * element_bytes(first.dtype());
  const int64_t outer = outer_count(extents, axis), pitch = extents[axis] * unit;
  std::byte* out = result.mutable_bytes().data();
  for (const Tensor& input : context.inputs) {
    const int64_t bytes = input.extents()[axis] * unit;
    copy_pieces(context, input.bytes().data(), bytes, out, pitch, bytes, outer);
    out += bytes;
  }
  return {result};
}

std::vector<Tensor> evaluate_concat(const Concat& op, const EvaluateContext& context) {
  return move_elements(context, [&](const EvaluateContext& c) { return concatenated(op, c); });
}

std::vector<ResultInfo> infer_concat(const Concat& op, const InferContext& context) {
  const Value& first = context.input(0);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, context.rank(0), "Concat"));
  ResultInfo result{first.dtype, first.shape};
  std::vector<size_t> all = {0};
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    const Value& next = context.input(i);
    bool fits = next.shape.size() == first.shape.size() && next.dtype == first.dtype;
    for (size_t d = 0; fits && d < first.shape.size(); ++d) {
      if (d == axis) {
        result.shape[d] = result.shape[d] + next.shape[d];
        continue;
      }
      // Symbols that differ are taken as equal and checked at run time; a constant says more than a symbol.
      const bool constants = result.shape[d].is_constant() && next.shape[d].is_constant();
      fits = !constants || result.shape[d] == next.shape[d];
      if (next.shape[d].is_constant()) result.shape[d] = next.shape[d];
    }
    if (!fits) {
      throw_input_error("input " + std::to_string(i) + " ('" + next.name + "') does not fit to input 0 ('" +
                        first.name + "'): types, ranks and all dims but that of axis " +
                        std::to_string(axis) + " must be equal");
    }
    all.push_back(i);
  }
  if (is_static(result.shape))
    result.contents = moved_contents(context, all, bind_evaluation(evaluate_concat, op))[0];
  return {result};
}

// --- Split
void check_sizes(const Split& op, const InferContext& context, size_t axis) {
  Dim sum = 0;
  for (const Dim& size : op.sizes) {
    if (size.is_constant() && size.value() < 0)
      throw_input_error("a part of " + size.to_string() + " is negative");
    sum = sum + size;
  }
  const Dim& dim = context.input(0).shape[axis];
  if (sum.is_constant() && dim.is_constant() && sum != dim) {
    throw_input_error("the parts " + to_string(op.sizes) + " sum up to " + sum.to_string() + ", axis " +
                      std::to_string(axis) + " has " + dim.to_string());
  }
  if (op.sizes.size() < context.output_count) {
    throw_input_error(std::to_string(context.output_count) + " outputs but " +
                      std::to_string(op.sizes.size()) + " parts");
  }
}

std::vector<Tensor> split(const Split& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, x.rank(), "Split"));
  const int64_t unit = inner_count(x.extents(), axis) * element_bytes(x.dtype());
  const int64_t outer = outer_count(x.extents(), axis), pitch = x.extents()[axis] * unit;
  std::vector<Tensor> results;
  int64_t done = 0;
  for (const int64_t size : context.extents(op.sizes)) {
    if (size < 0 || size > x.extents()[axis] - done) {
      throw_input_error("the parts do not sum up to the " + std::to_string(x.extents()[axis]) +
                        " elements of axis " + std::to_string(axis));
    }
    Extents extents = x.extents();
    extents[axis] = size;
    Tensor part = allocate_result(x.dtype(), extents);
    copy_pieces(context, x.bytes().data() + done * unit, pitch, part.mutable_bytes().data(), size * unit,
                size * unit, outer);
    results.push_back(std::move(part));
    done += size;
  }
  return results;
}

std::vector<Tensor> evaluate_split(const Split& op, const EvaluateContext& context) {
  return move_elements(context, [&](const EvaluateContext& c) { return split(op, c); });
}

std::vector<ResultInfo> infer_split(const Split& op, const InferContext& context) {
  const Value& x = context.input(0);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, context.rank(0), "Split"));
  check_sizes(op, context, axis);
  std::vector<ResultInfo> results;
  for (const Dim& size : op.sizes) {
    Shape shape = x.shape;
    shape[axis] = size;
    results.push_back({x.dtype, std::move(shape)});
  }
  if (is_static(op.sizes)) {
    const auto contents = moved_contents(context, {0}, bind_evaluation(evaluate_split, op));
    for (size_t i = 0; i < results.size() && i < contents.size(); ++i) results[i].contents = contents[i];
  }
  return results;
}

}  // namespace

std::vector<OpDef> concat_ops() {
  return {op_def<Concat, infer_concat, evaluate_concat>(no_flops),
          op_def<Split, infer_split, evaluate_split>(no_flops)};
}

}  // namespace lathe
