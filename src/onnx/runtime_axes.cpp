// SPDX-License-Identifier: Apache-2.0
#include "onnx/runtime_axes.h"

#include <algorithm>
#include <numeric>

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

class RuntimeAxes {
 public:
  // `rank`: of the tensor that the axes count in, as its rank and the number of axes say.
  RuntimeAxes(NodeImport& node, int64_t more_dims)
      : node_(node), count_(axes_count(node)), rank_(node.rank(0) + more_dims * count_) {
    const auto small = [&](double v) { return node_.scalar(v, DType::Int64); };
    Ints all(static_cast<size_t>(rank_));
    std::iota(all.begin(), all.end(), 0);
    positions_ = node_.ints_constant(all);
    const ValueId axes = node_.in(1);
    const ValueId from_front =
        node_.pointwise(C::Add, {axes, small(static_cast<double>(rank_))}, "axes_from_front");
    const ValueId negative = node_.pointwise(C::Less, {axes, small(0)}, "axes_negative");
    const ValueId normal = node_.pointwise(C::Where, {negative, from_front, axes}, "axes_normalized");
    const ValueId hits = node_.pointwise(C::Equal,
                                         {node_.reshape(normal, {count_, 1}, "axes_column"),
                                          node_.reshape(positions_, {1, rank_}, "positions_row")},
                                         "axes_hits");
    const ValueId hit_count =
        node_.reduce(ReduceKind::Sum, node_.cast(hits, DType::Int64, "axes_hit"), {0}, false, "axes_count");
    is_axis_ = node_.pointwise(C::Greater, {hit_count, small(0)}, "is_axis");
  }

  ValueId unsqueezed() {
    check_room(rank_);
    const ValueId one = node_.scalar(1, DType::Int64), zero = node_.scalar(0, DType::Int64);
    if (node_.rank(0) == 0) return node_.reshape(node_.in(0), Shape(static_cast<size_t>(rank_), Dim(1)), "");
    const ValueId kept = node_.pointwise(C::Where, {is_axis_, zero, one}, "is_kept");
    // The dim of x at a kept place is the number of kept places before it.
    ValueId source =
        node_.pointwise(C::Sub, {node_.add(CumSum{}, {kept, zero}, "kept_so_far"), one}, "source");
    source = node_.pointwise(C::Max, {source, zero}, "source_low");
    source = node_.pointwise(
        C::Min, {source, node_.scalar(static_cast<double>(node_.rank(0) - 1), DType::Int64)}, "source_high");
    const ValueId dims = node_.add(Gather{.axis = 0}, {input_shape(), source}, "dims");
    return reshaped(node_.pointwise(C::Where, {is_axis_, one, dims}, "shape"));
  }

  ValueId squeezed() {
    const int64_t left = rank_ - count_;
    if (left < 0) node_.fail("there are more axes than dimensions");
    if (left == 0) return node_.reshape(node_.in(0), {}, "");
    check_room(left);
    // Kept places in ascending order: the largest of their negatives.
    const ValueId behind_all = node_.scalar(static_cast<double>(-rank_ - 1), DType::Int64);
    const ValueId key =
        node_.pointwise(C::Where, {is_axis_, behind_all, negated(positions_, "positions_negative")}, "key");
    const ValueId top = node_.add_multi(TopK{.axis = 0}, {key, node_.ints_constant({left})}, 2, "kept")[0];
    return reshaped(node_.add(Gather{.axis = 0}, {input_shape(), negated(top, "source")}, "shape"));
  }

 private:
  static int64_t axes_count(const NodeImport& node) {
    const Shape axes = node.shape(1);
    if (axes.size() != 1 || !axes[0].is_constant() || axes[0].value() > 64)
      throw_unsupported("the number of its axes is not known at import");
    return axes[0].value();
  }
  ValueId negated(ValueId v, std::string_view name) { return node_.pointwise(C::Neg, {v}, name); }
  ValueId input_shape() {
    const Shape dims = node_.shape(0);
    if (!is_data_dependent(dims)) return node_.add(ShapeTensor{.dims = dims}, {}, "input_shape");
    return node_.add(ShapeOf{.end = Ints{node_.rank(0)}}, {node_.in(0)}, "input_shape");
  }
  // Each dim of the result may be as large as all of them together, and an engine has room for that.
  void check_room(int64_t rank) const {
    constexpr int64_t kMost = int64_t{1} << 24;
    const Dim count = element_count(node_.shape(0));
    if (!count.is_constant())
      throw_unsupported(
          "its axes are computed while the model runs, and its input has a symbolic shape; axes must be "
          "constant");
    int64_t room = 1;
    for (int64_t i = 0; i < rank && room <= kMost; ++i)
      room *= std::max<int64_t>(1, std::min(count.value(), kMost));
    if (room > kMost)
      throw_unsupported(
          "its axes are computed while the model runs, which is supported for small tensors only; make them "
          "constant");
  }

  // Wrong axes give a shape of another number of elements, which Reshape refuses.
  ValueId reshaped(ValueId shape) { return node_.add(ReshapeOp{.allow_zero = true}, {node_.in(0), shape}); }

  NodeImport& node_;
  int64_t count_, rank_;
  ValueId positions_ = kNoValue, is_axis_ = kNoValue;
};

}  // namespace

ValueId unsqueeze_at_run_time(NodeImport& node) {
  return RuntimeAxes(node, 1).unsqueezed();
}

ValueId squeeze_at_run_time(NodeImport& node) {
  return RuntimeAxes(node, 0).squeezed();
}

}  // namespace lathe::onnx
