// SPDX-License-Identifier: Apache-2.0
//
// Tensors that come from shapes or attributes: Constant, Shape, Size, ConstantOfShape, Range, EyeLike.
#include <algorithm>
#include <array>

#include "ir/strings.h"
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

ValueId strings_value(NodeImport& node, Tensor strings) {
  const ValueId id = node.constant(std::move(strings), "value");
  node.builder().mark_strings(id);
  return id;
}

Values import_constant(NodeImport& node) {
  if (const auto strings = node.string_tensor("value")) return {strings_value(node, *strings)};
  if (node.has_attribute("value")) return {node.constant(*node.tensor("value"), "value")};
  if (node.has_attribute("value_float"))
    return {node.constant(Tensor::scalar_f32(node.real("value_float", 0)))};
  if (node.has_attribute("value_int"))
    return {node.constant(Tensor::scalar_i64(node.integer("value_int", 0)))};
  if (const auto list = node.ints("value_ints")) return {node.ints_constant(*list)};
  if (const auto list = node.reals("value_floats")) {
    return {node.constant(Tensor::from<float>({static_cast<int64_t>(list->size())}, *list))};
  }
  if (const auto sparse = node.sparse_tensor("sparse_value")) return {node.constant(*sparse, "value")};
  if (node.has_attribute("value_string")) {
    const std::string text = node.text("value_string", "");
    return {strings_value(node, strings_tensor({}, std::array{std::string_view(text)}))};
  }
  if (!node.has_attribute("value_strings")) node.fail("it has no value");
  const std::vector<std::string> texts = node.texts("value_strings");
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return {strings_value(node, strings_tensor({static_cast<int64_t>(views.size())}, views))};
}

// Dims of x from `start` to `end`. When some are known only while the model runs, the layer that knows them
// must run first.
ValueId add_shape(NodeImport& node, const Shape& dims, int64_t start, int64_t end) {
  if (!is_data_dependent(dims)) return node.add(ShapeTensor{.dims = dims}, {});
  return node.add(ShapeOf{.start = start, .end = Ints{end}}, {node.in(0)}, "shape");
}

Values import_shape(NodeImport& node) {
  const int64_t rank = node.rank(0);
  const auto clamp = [rank](int64_t a) { return std::clamp<int64_t>(a < 0 ? a + rank : a, 0, rank); };
  const int64_t start = clamp(node.integer("start", 0));
  const int64_t end = std::max(start, clamp(node.integer("end", rank)));
  const Shape shape = node.shape(0);
  return {add_shape(node, Shape(shape.begin() + start, shape.begin() + end), start, end)};
}

Values import_size(NodeImport& node) {
  const Shape shape = node.shape(0);
  if (!is_data_dependent(shape))
    return {node.add(ShapeTensor{.dims = {element_count(shape)}, .scalar = true}, {})};
  return {node.reduce(ReduceKind::Prod, add_shape(node, shape, 0, node.rank(0)), {0}, false, "")};
}

Values import_constant_of_shape(NodeImport& node) {
  Fill op;
  if (const auto value = node.tensor("value")) {
    if (value->size() != 1) node.fail("its value must have one element");
    op.dtype = value->dtype();
    op.value = value->to_doubles()[0];
  }
  if (const auto shape = node.contents(0)) {
    op.shape = *shape;
    return {node.add(op, {})};
  }
  return {node.add(op, {node.in(0)})};
}

Values import_range(NodeImport& node) {
  return {node.add(Range{}, {node.in(0), node.in(1), node.in(2)})};
}

// Ones where column = row + k.
Values import_eye_like(NodeImport& node) {
  if (node.rank(0) != 2) node.fail("EyeLike needs a matrix");
  const DType dtype = node.element_type("dtype", node.dtype(0));
  const Shape shape = node.shape(0);
  const ValueId zero = node.scalar(0, DType::Int64), one = node.scalar(1, DType::Int64);
  const auto count = [&](const Dim& n, const std::string& name) {
    return node.add(Range{}, {zero, node.dim_scalar(n), one}, name);
  };
  const ValueId offset = node.scalar(static_cast<double>(node.integer("k", 0)), DType::Int64);
  const ValueId rows =
      node.pointwise(PointwiseCode::Add, {count(shape[0], "rows"), offset}, 0, 0, "diagonal");
  const ValueId column = node.reshape(rows, {shape[0], 1}, "column");
  const ValueId is_one =
      node.pointwise(PointwiseCode::Equal, {column, count(shape[1], "columns")}, 0, 0, "is_one");
  return {node.cast(is_one, dtype, "")};
}

}  // namespace

std::vector<Importer> shape_importers() {
  return {{"Constant", 1, kLatestOpset, import_constant},
          {"ConstantOfShape", 9, kLatestOpset, import_constant_of_shape},
          {"EyeLike", 9, kLatestOpset, import_eye_like},
          {"Range", 11, kLatestOpset, import_range},
          {"Shape", 1, kLatestOpset, import_shape},
          {"Size", 1, kLatestOpset, import_size}};
}

}  // namespace lathe::onnx
