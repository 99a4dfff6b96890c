// SPDX-License-Identifier: Apache-2.0
//
// Softmax, LogSoftmax, Hardmax. Since opset 13 over one axis; before, over all axes from `axis` on,
// flattened.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

ValueId hardmax(NodeImport& node, ValueId x, int64_t axis) {
  const DType dtype = node.dtype_of(x);
  const Dim depth = node.shape_of(x)[static_cast<size_t>(axis)];
  const ValueId index = node.add(ArgReduce{.max = true, .axis = axis, .keepdims = false}, {x}, "argmax");
  const double zero_one[] = {0, 1};
  const ValueId values = node.constant(Tensor::from_doubles(dtype, {2}, zero_one));
  return node.add(OneHot{.axis = axis}, {index, node.dim_scalar(depth), values});
}

enum class Kind { Softmax, LogSoftmax, Hardmax };

ValueId apply(NodeImport& node, Kind kind, ValueId x, int64_t axis) {
  if (kind == Kind::Hardmax) return hardmax(node, x, axis);
  return node.add(Softmax{.axis = axis, .log = kind == Kind::LogSoftmax}, {x});
}

template <Kind kind>
Values import_over_axis(NodeImport& node) {
  return {apply(node, kind, node.in(0), normalize_axis(node.integer("axis", -1), node.rank(0), "axis"))};
}

// x as a matrix of all axes before `axis` by all from it on. The last axis alone needs no reshape.
template <Kind kind>
Values import_flattened(NodeImport& node) {
  const Shape shape = node.shape(0);
  const int64_t axis = normalize_axis(node.integer("axis", 1), node.rank(0), "axis");
  if (axis + 1 == node.rank(0)) return {apply(node, kind, node.in(0), axis)};
  const auto middle = shape.begin() + axis;
  const Shape flat = {element_count(Shape(shape.begin(), middle)), element_count(Shape(middle, shape.end()))};
  const ValueId y = apply(node, kind, node.reshape(node.in(0), flat, "flatten"), 1);
  return {node.reshape(y, shape, "unflatten")};
}

}  // namespace

std::vector<Importer> softmax_importers() {
  return {{"Softmax", 1, 12, import_flattened<Kind::Softmax>},
          {"Softmax", 13, kLatestOpset, import_over_axis<Kind::Softmax>},
          {"LogSoftmax", 1, 12, import_flattened<Kind::LogSoftmax>},
          {"LogSoftmax", 13, kLatestOpset, import_over_axis<Kind::LogSoftmax>},
          {"Hardmax", 1, 12, import_flattened<Kind::Hardmax>},
          {"Hardmax", 13, kLatestOpset, import_over_axis<Kind::Hardmax>}};
}

}  // namespace lathe::onnx
