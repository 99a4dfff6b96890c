// SPDX-License-Identifier: Apache-2.0
//
// RotaryEmbedding (opset 23): the first `rotary_embedding_dim` elements of each head are pairs that turn by
// an angle per position: (a, b) -> (a cos - b sin, a sin + b cos). A pair is (x[i], x[i + half]), or
// neighbours when interleaved.
#include "onnx/importers.h"
#include "onnx/rotary.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// Both halves of the pairs of x, whose last axis (3) has `width` elements.
struct Pairs {
  ValueId a, b;
};

Pairs split_pairs(NodeImport& node, ValueId x, int64_t width, bool interleaved) {
  if (!interleaved) {
    return {node.slice(x, 3, 0, width / 2, "first"), node.slice(x, 3, width / 2, width, "second")};
  }
  const auto every_second = [&](int64_t start, std::string_view name) {
    return node.add(Slice{.starts = Shape{start}, .ends = Shape{width}, .axes = {3}, .steps = {2}}, {x},
                    name);
  };
  return {every_second(0, "first"), every_second(1, "second")};
}

ValueId join_pairs(NodeImport& node, Pairs p, const Shape& shape, bool interleaved) {
  if (!interleaved) return node.add(Concat{.axis = 3}, {p.a, p.b}, "pairs");
  Shape column = node.shape_of(p.a);
  column.push_back(1);
  const Values columns = {node.reshape(p.a, column, "first_column"),
                          node.reshape(p.b, column, "second_column")};
  return node.reshape(node.add(Concat{.axis = 4}, columns, "pairs"), shape, "rotated");
}

// Cosines or sines per position, with an axis of one for the heads.
ValueId per_head(NodeImport& node, ValueId table, const Rotation& rotation, const std::string& name) {
  Shape shape = node.shape_of(table);
  if (shape.size() != 3)
    node.fail("cos and sin caches must give three dimensions (batch, sequence, half of the rotated width)");
  // Caches wider than half of what turns (opset 23 allowed it): the first columns count.
  const int64_t half = rotation.width / 2;
  if (shape[2].is_constant() && shape[2].value() > half) {
    table = node.slice(table, 2, 0, half, name + "_used");
    shape[2] = half;
  }
  shape.insert(shape.begin() + rotation.head_axis, Dim(1));
  return node.reshape(table, shape, name + "_per_head");
}

ValueId looked_up(NodeImport& node, size_t input, std::string_view name) {
  return node.has(3) ? node.add(Gather{.axis = 0}, {node.in(input), node.in(3)}, name) : node.in(input);
}

Values import_rotary(NodeImport& node) {
  const Shape original = node.shape(0);
  const bool flat = original.size() == 3;
  ValueId x = node.in(0);
  if (flat) {
    const int64_t heads = node.integer("num_heads", 0);
    const auto width = heads > 0 ? original[2].exact_div(heads) : std::nullopt;
    if (!width) node.fail("num_heads must divide the last dimension of a three-dimensional input");
    x = node.reshape(x, {original[0], original[1], heads, *width}, "heads");
  }
  const Shape shape = node.shape_of(x);
  if (shape.size() != 4 || !shape[3].is_constant())
    node.fail("the input needs three or four dimensions, the last one constant");
  const int64_t width = shape[3].value();
  int64_t rotated = node.integer("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = width;
  if (rotated < 2 || rotated > width || rotated % 2 != 0)
    node.fail("rotary_embedding_dim is " + std::to_string(rotated));
  const Rotation rotation{
      .width = rotated, .interleaved = node.integer("interleaved", 0) != 0, .head_axis = flat ? 2 : 1};
  const ValueId y = rotate(node, x, looked_up(node, 1, "cos"), looked_up(node, 2, "sin"), rotation);
  return {flat ? node.reshape(y, original, "") : y};
}

}  // namespace

ValueId rotate(NodeImport& node, ValueId x, ValueId cosines, ValueId sines, const Rotation& rotation) {
  const int64_t width = node.shape_of(x)[3].value(), rotated = rotation.width;
  const ValueId cos = per_head(node, cosines, rotation, "cos"), sin = per_head(node, sines, rotation, "sin");
  const ValueId turned = rotated == width ? x : node.slice(x, 3, 0, rotated, "turned");
  const Pairs p = split_pairs(node, turned, rotated, rotation.interleaved);
  const auto times = [&](ValueId v, ValueId factor, std::string_view name) {
    return node.pointwise(C::Mul, {v, factor}, name);
  };
  const Pairs q = {node.pointwise(C::Sub, {times(p.a, cos, "a_cos"), times(p.b, sin, "b_sin")}, "real"),
                   node.pointwise(C::Add, {times(p.a, sin, "a_sin"), times(p.b, cos, "b_cos")}, "imaginary")};
  const ValueId y = join_pairs(node, q, node.shape_of(turned), rotation.interleaved);
  if (rotated == width) return y;
  return node.add(Concat{.axis = 3}, {y, node.slice(x, 3, rotated, width, "kept")}, "whole");
}

std::vector<Importer> rotary_importers() {
  return {{"RotaryEmbedding", 23, kLatestOpset, import_rotary}};
}

}  // namespace lathe::onnx
