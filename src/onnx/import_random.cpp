// SPDX-License-Identifier: Apache-2.0
//
// Random numbers: uniform and normal ones are core operators, Bernoulli, Multinomial and Dropout in training
// mode compare with them. An engine draws the same numbers in every run. A node without a seed gets one from
// its name, so that a model builds to the same engine each time; the log says so.
#include "onnx/import_random.h"

#include <bit>

#include "base/hash.h"
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

int64_t read_seed(const NodeImport& node) {
  const AttributeProto* seed_attribute = node.find("seed");
  // An integer for Dropout, a real number for the others.
  if (seed_attribute && seed_attribute->type == AttributeProto::Type::Int) return seed_attribute->i;
  if (seed_attribute) return std::bit_cast<int32_t>(node.real("seed", 0));
  const auto seed = static_cast<int64_t>(hash_text(node.name()) >> 32);
  node.note("it has no seed; " + std::to_string(seed) + " is picked, and every run draws the same numbers");
  return seed;
}

// Where only a run finds the shape of x, the layer reads x.
Values shape_source(const NodeImport& node, ValueId x) {
  return is_data_dependent(node.shape_of(x)) ? Values{x} : Values{};
}

RandomUniform uniform(const NodeImport& node, Shape shape, DType dtype) {
  return {.shape = std::move(shape),
          .dtype = dtype,
          .low = node.real("low", 0),
          .high = node.real("high", 1),
          .seed = read_seed(node)};
}

RandomNormal normal(const NodeImport& node, Shape shape, DType dtype) {
  return {.shape = std::move(shape),
          .dtype = dtype,
          .mean = node.real("mean", 0),
          .scale = node.real("scale", 1),
          .seed = read_seed(node)};
}

Shape read_shape(const NodeImport& node) {
  const auto shape = node.ints("shape");
  if (!shape) node.fail("attribute 'shape' is missing");
  for (const int64_t extent : *shape)
    if (extent < 0) node.fail("shape has the entry " + std::to_string(extent));
  return to_shape(*shape);
}

// The type of x, unless `dtype` says another one; numbers that are not real become float32.
DType like_type(const NodeImport& node) {
  const DType x = node.dtype(0);
  return node.element_type("dtype", is_float(x) ? x : DType::Float32);
}

Values import_uniform(NodeImport& node) {
  return {node.add(uniform(node, read_shape(node), node.element_type("dtype", DType::Float32)), {})};
}
Values import_normal(NodeImport& node) {
  return {node.add(normal(node, read_shape(node), node.element_type("dtype", DType::Float32)), {})};
}
Values import_uniform_like(NodeImport& node) {
  return {node.add(uniform(node, node.shape(0), like_type(node)), shape_source(node, node.in(0)))};
}
Values import_normal_like(NodeImport& node) {
  return {node.add(normal(node, node.shape(0), like_type(node)), shape_source(node, node.in(0)))};
}

// 1 with probability x.
Values import_bernoulli(NodeImport& node) {
  const ValueId x = node.cast(node.in(0), DType::Float32, "probability");
  const ValueId drawn = draw_uniform(node, node.in(0), "drawn");
  const ValueId is_one = node.pointwise(C::Less, {drawn, x}, 0, 0, "is_one");
  return {node.cast(is_one, node.element_type("dtype", node.dtype(0)), "")};
}

// The number of classes whose probabilities together are at most the number that was drawn. x holds
// logarithms.
Values import_multinomial(NodeImport& node) {
  if (node.rank(0) != 2) node.fail("its input needs two dimensions (batch, classes)");
  const Shape x = node.shape(0);
  const int64_t samples = node.integer("sample_size", 1);
  if (samples < 1) node.fail("sample_size is " + std::to_string(samples));
  const ValueId probability =
      node.add(Softmax{.axis = 1}, {node.cast(node.in(0), DType::Float32, "logits")}, "probabilities");
  const ValueId sums = node.add(CumSum{}, {probability, node.scalar(1, DType::Int64)}, "sums");
  const RandomUniform op{.shape = {x[0], samples}, .dtype = DType::Float32, .seed = read_seed(node)};
  if (is_data_dependent(x)) throw_unsupported("its batch is known only while the model runs");
  const ValueId drawn = node.add(op, {}, "drawn");
  const ValueId passed = node.pointwise(C::LessOrEqual,
                                        {node.reshape(sums, {x[0], 1, x[1]}, "sums_row"),
                                         node.reshape(drawn, {x[0], samples, 1}, "drawn_column")},
                                        0, 0, "passed");
  const ValueId count =
      node.reduce(ReduceKind::Sum, node.cast(passed, DType::Int64, "passed_count"), {2}, false, "class");
  // The sums may end a little below 1.
  const ValueId last = node.dim_scalar(x[1] - 1);
  const ValueId result = node.pointwise(C::Min, {count, last}, 0, 0, "class_in_range");
  return {node.cast(result, node.element_type("dtype", DType::Int32), "")};
}

}  // namespace

ValueId draw_uniform(NodeImport& node, ValueId like, std::string_view suffix) {
  const RandomUniform op{.shape = node.shape_of(like), .dtype = DType::Float32, .seed = read_seed(node)};
  return node.add(op, shape_source(node, like), suffix);
}

std::vector<Importer> random_importers() {
  return {{"Bernoulli", 15, kLatestOpset, import_bernoulli},
          {"Multinomial", 7, kLatestOpset, import_multinomial},
          {"RandomNormal", 1, kLatestOpset, import_normal},
          {"RandomNormalLike", 1, kLatestOpset, import_normal_like},
          {"RandomUniform", 1, kLatestOpset, import_uniform},
          {"RandomUniformLike", 1, kLatestOpset, import_uniform_like}};
}

}  // namespace lathe::onnx
