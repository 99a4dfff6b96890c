// SPDX-License-Identifier: Apache-2.0
//
// What operators meant in opsets 1 to 6, where it differs from later ones: broadcasting by `axis`, shapes and
// sizes as attributes, BatchNormalization and Dropout with `is_test`. Attributes like consumed_inputs say
// nothing about results and are not read.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// With broadcast = 1 the dims of b are those of a from `axis` on; without an axis the last ones.
template <C code>
Values import_binary_by_axis(NodeImport& node) {
  ValueId b = node.in(1);
  const Shape shape = node.shape(1);
  const auto rank = static_cast<int64_t>(shape.size());
  if (node.integer("broadcast", 0) != 0 && node.has_attribute("axis") && rank > 0) {
    const int64_t axis = normalize_axis(node.integer("axis", 0), node.rank(0), "axis");
    if (axis + rank > node.rank(0))
      node.fail("its second input has more dimensions than the first one from axis on");
    Shape wide = shape;
    wide.resize(static_cast<size_t>(node.rank(0) - axis), Dim(1));
    b = node.reshape(b, wide, "broadcast");
  }
  return {node.pointwise(code, {node.in(0), b})};
}

// A slope per channel: dim 1.
Values import_prelu(NodeImport& node) {
  ValueId slope = node.in(1);
  const Shape shape = node.shape(1);
  if (shape.size() == 1 && !shape[0].is_constant(1) && node.rank(0) > 2) {
    Shape wide(static_cast<size_t>(node.rank(0) - 1), Dim(1));
    wide[0] = shape[0];
    slope = node.reshape(slope, wide, "slope_per_channel");
  }
  return {node.pointwise(C::PRelu, {node.in(0), slope})};
}

Values import_legacy_selu(NodeImport& node) {
  return {node.pointwise(C::Selu, {node.in(0)}, node.real("alpha", 1.6732f), node.real("gamma", 1.0507f))};
}

// One output is the test mode, whatever is_test says; the running statistics of training are not supported.
Values import_legacy_batch_norm(NodeImport& node) {
  if (node.integer("spatial", 1) == 0)
    throw_unsupported("spatial=0 (statistics per element) is not supported");
  for (size_t i = 1; i < 5; ++i)
    if (node.integer("is_test", 0) == 0 && node.wants_output(i))
      throw_unsupported(
          "training mode in opsets before 7 is not supported; convert it with onnx.version_converter");
  const BatchNorm op{.epsilon = node.real("epsilon", 1e-5f)};
  return {node.add(op, {node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)})};
}

// As later opsets do, whose Dropout has no is_test: nothing is dropped at inference.
Values import_legacy_dropout(NodeImport& node) {
  if (node.integer("is_test", 0) == 0)
    node.note("is_test is 0; it is taken as 1, because engines do not train");
  Values results = {node.in(0)};
  if (node.wants_output(1))
    results.push_back(node.add(Fill{.shape = node.shape(0), .dtype = node.dtype(0), .value = 1}, {}, "mask"));
  return results;
}

Values import_legacy_reshape(NodeImport& node) {
  const auto shape = node.ints("shape");
  if (!shape) node.fail("attribute 'shape' is missing");
  return {node.add(ReshapeOp{}, {node.in(0), node.ints_constant(*shape)})};
}

Values import_legacy_pad(NodeImport& node) {
  const auto pads = node.ints("paddings");
  if (!pads || pads->size() != 2 * node.shape(0).size())
    node.fail("paddings needs two entries per dimension");
  const std::string mode = node.text("mode", "constant");
  Pad op{.pads = to_shape(*pads)};
  if (mode == "reflect" || mode == "edge") {
    op.mode = mode == "edge" ? PadMode::Edge : PadMode::Reflect;
  } else if (mode != "constant") {
    node.fail("mode is '" + mode + "', not constant, reflect or edge");
  }
  return {node.add(op, {node.in(0), kNoValue, node.scalar(node.real("value", 0), node.dtype(0))})};
}

Values import_upsample(NodeImport& node) {
  const float height = node.real("height_scale", 0), width = node.real("width_scale", 0);
  if (node.rank(0) != 4 || !(height > 0 && width > 0))
    node.fail("it needs an input of four dimensions and positive height_scale and width_scale");
  const std::string mode = node.text("mode", "nearest");
  if (mode != "nearest" && mode != "bilinear") node.fail("mode is '" + mode + "', not nearest or bilinear");
  return {node.add(Resize{.mode = mode == "nearest" ? ResizeMode::Nearest : ResizeMode::Linear,
                          .coordinates = CoordinateMode::Asymmetric,
                          .nearest = NearestMode::Floor,
                          .scales = {1, 1, height, width}},
                   {node.in(0)})};
}

// The type is a name: "FLOAT16".
Values import_legacy_cast(NodeImport& node) {
  std::string name = node.text("to", "");
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (name == "float") name = "float32";
  if (name == "double") name = "float64";
  const auto dtype = dtype_from_name(name);
  if (!dtype) node.fail("to is '" + node.text("to", "") + "', which is no type of numbers");
  return {node.add(Cast{.to = *dtype}, {node.in(0)})};
}

// One axis, `tiles` times.
Values import_legacy_tile(NodeImport& node) {
  const auto tiles = node.known_ints(1), axis = node.known_ints(2);
  if (!tiles || !axis || tiles->size() != 1 || axis->size() != 1)
    throw_unsupported("tiles and axis must be constants of one element");
  Shape repeats(static_cast<size_t>(node.rank(0)), Dim(1));
  repeats[static_cast<size_t>(normalize_axis(axis->front(), node.rank(0), "axis"))] = tiles->front();
  return {node.add(Tile{.repeats = repeats}, {node.in(0)})};
}

}  // namespace

std::vector<Importer> legacy_importers() {
  return {{"Add", 1, 6, import_binary_by_axis<C::Add>},
          {"And", 1, 6, import_binary_by_axis<C::And>},
          {"BatchNormalization", 1, 6, import_legacy_batch_norm},
          {"Cast", 1, 5, import_legacy_cast},
          {"Div", 1, 6, import_binary_by_axis<C::Div>},
          {"Dropout", 1, 6, import_legacy_dropout},
          {"Equal", 1, 6, import_binary_by_axis<C::Equal>},
          {"Greater", 1, 6, import_binary_by_axis<C::Greater>},
          {"Less", 1, 6, import_binary_by_axis<C::Less>},
          {"Mul", 1, 6, import_binary_by_axis<C::Mul>},
          {"Or", 1, 6, import_binary_by_axis<C::Or>},
          {"PRelu", 1, 6, import_prelu},
          {"Pad", 1, 1, import_legacy_pad},
          {"Pow", 1, 6, import_binary_by_axis<C::Pow>},
          {"Reshape", 1, 4, import_legacy_reshape},
          {"Selu", 1, 5, import_legacy_selu},
          {"Sub", 1, 6, import_binary_by_axis<C::Sub>},
          {"Tile", 1, 5, import_legacy_tile},
          {"Upsample", 1, 6, import_upsample},
          {"Xor", 1, 6, import_binary_by_axis<C::Xor>}};
}

}  // namespace lathe::onnx
