// SPDX-License-Identifier: Apache-2.0
//
// Unique: slices along an axis (or single elements) that differ, where each was first, which of them each
// slice is, and how often. Slices are ordered like words in a dictionary; NaN is equal to NaN and behind
// everything, as in numpy.
#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"

namespace lathe {
namespace {

// x as (outer, slices, inner).
struct SliceLayout {
  int64_t outer, slices, inner;
  int64_t length() const { return outer * inner; }  // elements of a slice
  int64_t place(int64_t slice, int64_t element) const {
    return (element / inner * slices + slice) * inner + element % inner;
  }
};

std::optional<size_t> axis_of(const Unique& op, int64_t rank) {
  if (!op.axis) return std::nullopt;
  if (op.axis->size() != 1)
    throw_input_error("Unique has " + std::to_string(op.axis->size()) + " axes, not one");
  return static_cast<size_t>(normalize_axis(op.axis->front(), rank, "the axis of Unique"));
}

std::vector<ResultInfo> infer_unique(const Unique& op, const InferContext& context) {
  const Value& x = context.input(0);
  const auto axis = axis_of(op, context.rank(0));
  const Dim slices = axis ? x.shape[*axis] : element_count(x.shape);
  const Dim count = Dim::data_dependent(context.dim_name("count"), slices);
  Shape shape = axis ? x.shape : Shape{count};
  if (axis) shape[*axis] = count;
  return {{x.dtype, shape}, {DType::Int64, {count}}, {DType::Int64, {slices}}, {DType::Int64, {count}}};
}

SliceLayout layout_of(const Extents& extents, std::optional<size_t> axis) {
  if (!axis) return {1, element_count(extents), 1};
  SliceLayout layout{1, extents[*axis], 1};
  for (size_t d = 0; d < *axis; ++d) layout.outer *= extents[d];
  for (size_t d = *axis + 1; d < extents.size(); ++d) layout.inner *= extents[d];
  return layout;
}

// -1, 0 or 1 as slice a is before, equal to or behind b.
template <class Codec>
int compare_slices(const std::byte* data, const SliceLayout& layout, int64_t a, int64_t b) {
  for (int64_t i = 0; i < layout.length(); ++i) {
    const auto x = Codec::get(data, layout.place(a, i)), y = Codec::get(data, layout.place(b, i));
    const bool x_is_nan = x != x, y_is_nan = y != y;
    if (x_is_nan || y_is_nan) {
      if (x_is_nan != y_is_nan) return x_is_nan ? 1 : -1;
    } else if (x != y) {
      return x < y ? -1 : 1;
    }
  }
  return 0;
}

struct Groups {
  std::vector<int64_t> first, inverse, counts;
};

Groups find_groups(const Tensor& x, const SliceLayout& layout) {
  std::vector<int64_t> order(static_cast<size_t>(layout.slices));
  std::iota(order.begin(), order.end(), 0);
  Groups groups;
  groups.inverse.resize(order.size());
  with_codec(x.dtype(), [&]<class Codec>() {
    const auto compare = [&](int64_t a, int64_t b) {
      return compare_slices<Codec>(x.bytes().data(), layout, a, b);
    };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || compare(order[i - 1], order[i]) != 0) {
        groups.first.push_back(order[i]);
        groups.counts.push_back(0);
      }
      ++groups.counts.back();
      groups.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(groups.first.size()) - 1;
    }
  });
  return groups;
}

// Groups in the order of their first slice.
Groups in_order_of_appearance(const Groups& sorted) {
  std::vector<size_t> order(sorted.first.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return sorted.first[a] < sorted.first[b]; });
  std::vector<int64_t> rank(order.size());
  Groups groups;
  for (size_t i = 0; i < order.size(); ++i) {
    rank[order[i]] = static_cast<int64_t>(i);
    groups.first.push_back(sorted.first[order[i]]);
    groups.counts.push_back(sorted.counts[order[i]]);
  }
  for (const int64_t group : sorted.inverse) groups.inverse.push_back(rank[static_cast<size_t>(group)]);
  return groups;
}

Tensor int64_list(const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values);
}

std::vector<Tensor> find_unique(const Unique& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  const auto axis = axis_of(op, x.rank());
  const SliceLayout layout = layout_of(x.extents(), axis);
  Groups groups = find_groups(x, layout);
  if (!op.sorted) groups = in_order_of_appearance(groups);
  const auto count = static_cast<int64_t>(groups.first.size());
  Extents extents = axis ? x.extents() : Extents{count};
  if (axis) extents[*axis] = count;
  Tensor y = allocate_result(x.dtype(), extents);
  const SliceLayout packed{layout.outer, count, layout.inner};
  const int64_t bytes = element_bytes(x.dtype());
  std::byte* to = y.mutable_bytes().data();
  for (int64_t g = 0; g < count; ++g)
    for (int64_t i = 0; i < layout.length(); ++i)
      std::copy_n(x.bytes().data() + layout.place(groups.first[static_cast<size_t>(g)], i) * bytes, bytes,
                  to + packed.place(g, i) * bytes);
  return {y, int64_list(groups.first), int64_list(groups.inverse), int64_list(groups.counts)};
}

std::vector<Tensor> evaluate_unique(const Unique& op, const EvaluateContext& context) {
  return move_elements(context, [&](const EvaluateContext& c) { return find_unique(op, c); });
}

}  // namespace

std::vector<OpDef> unique_ops() {
  return {op_def<Unique, infer_unique, evaluate_unique>(one_per_input)};
}

}  // namespace lathe
