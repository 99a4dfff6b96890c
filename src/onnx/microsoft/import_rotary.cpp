// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: rotary position embeddings. Positions come before the tables, and are a row per item of the
// batch or one offset.
#include <algorithm>

#include "onnx/importers.h"
#include "onnx/microsoft/attention.h"
#include "onnx/rotary.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// The input as (B, H, S, D) or, with three dimensions, as (B, S, H, D).
struct Heads {
  ValueId x = kNoValue;
  Rotation rotation;
};

// Without a number of heads the tables say how wide a head is.
Heads read_heads(NodeImport& node, size_t table) {
  const Shape s = node.shape(0);
  Heads heads{.x = node.in(0)};
  if (node.rank(table) < 1) node.fail("its tables need two dimensions");
  const Dim half = node.shape(table).back();
  if (!half.is_constant()) throw_unsupported("the width of its tables is not constant");
  heads.rotation.width = node.integer("rotary_embedding_dim", 0);
  heads.rotation.interleaved = node.integer("interleaved", 0) != 0;
  if (s.size() == 3) {
    const int64_t count = node.integer("num_heads", 0);
    const auto width = count > 0 ? s[2].exact_div(count) : std::optional<Dim>(half * 2);
    const auto number = width ? s[2].exact_div(*width) : std::nullopt;
    if (!number) node.fail("its width, " + s[2].to_string() + ", is not made of whole heads");
    heads.x = node.reshape(heads.x, {s[0], s[1], *number, *width}, "heads");
    heads.rotation.head_axis = 2;
  } else if (s.size() != 4) {
    node.fail("the input needs three or four dimensions");
  }
  const Dim width = node.shape_of(heads.x)[3];
  if (!width.is_constant()) throw_unsupported("the size of its heads is not constant");
  if (heads.rotation.width == 0) heads.rotation.width = width.value();
  if (heads.rotation.width < 2 || heads.rotation.width > width.value() || heads.rotation.width % 2 != 0)
    node.fail("rotary_embedding_dim is " + std::to_string(heads.rotation.width));
  if (node.integer("is_packed_batching", 0) != 0)
    throw_unsupported("sequences of several lengths in one row (is_packed_batching) are not supported");
  return heads;
}

Values finish(NodeImport& node, const Heads& heads, ValueId cosines, ValueId sines) {
  ValueId y = rotate(node, heads.x, cosines, sines, heads.rotation);
  if (node.rank(0) == 3) y = node.reshape(y, node.shape(0), "rows");
  const float scale = node.real("scale", 1);
  if (scale == 1 || scale == 0) return {y};
  return {node.pointwise(C::Mul, {y, node.scalar(scale, node.dtype_of(y))}, "scale")};
}

Values import_microsoft_rotary(NodeImport& node) {
  const Heads heads = read_heads(node, 2);
  const Dim length = node.shape_of(heads.x)[heads.rotation.head_axis == 2 ? 1 : 2];
  ValueId positions = node.cast(node.in(1), DType::Int64, "positions");
  if (node.rank(1) < 2) {
    const ValueId first = node.reshape(positions, {1, 1}, "offset");
    positions = node.pointwise(C::Add, {first, count_up(node, length, {1, length}, "steps")}, "positions");
  }
  const auto table = [&](size_t i, std::string_view name) {
    return node.add(Gather{.axis = 0}, {node.in(i), positions}, name);
  };
  return finish(node, heads, table(2, "cos"), table(3, "sin"));
}

// Which of the three streams (time, height, width) gives each column of the tables.
std::vector<int64_t> streams(const NodeImport& node, int64_t half) {
  const Ints sections = node.ints("mrope_section").value_or(Ints());
  if (sections.size() != 3 ||
      std::any_of(sections.begin(), sections.end(), [](int64_t s) { return s < 0; }) || sections[0] > half ||
      sections[1] > half || sections[0] + sections[1] + sections[2] != half)
    node.fail("mrope_section must be three numbers that add up to " + std::to_string(half));
  std::vector<int64_t> of_column(static_cast<size_t>(half), 0);
  if (node.integer("mrope_layout", 0) == 0) {
    std::fill(of_column.begin() + sections[0], of_column.end(), 1);
    std::fill(of_column.begin() + sections[0] + sections[1], of_column.end(), 2);
    return of_column;
  }
  for (int64_t stream = 1; stream < 3; ++stream)
    for (int64_t i = stream; i < std::min(3 * sections[static_cast<size_t>(stream)], half); i += 3)
      of_column[static_cast<size_t>(i)] = stream;
  return of_column;
}

// The three streams of positions (3, B, S) each look up the whole row; a mask per stream keeps its columns.
Values import_multimodal_rotary(NodeImport& node) {
  const Heads heads = read_heads(node, 2);
  const int64_t half = heads.rotation.width / 2;
  if (node.rank(1) != 3) node.fail("position_ids need three dimensions");
  const std::vector<int64_t> of_column = streams(node, half);
  const Shape p = node.shape(1);
  const auto table = [&](size_t input, const std::string& name) {
    ValueId sum = kNoValue;
    for (int64_t stream = 0; stream < 3; ++stream) {
      const ValueId own = node.reshape(node.slice(node.in(1), 0, stream, stream + 1, name + "_stream"),
                                       {p[1], p[2]}, name + "_ids");
      const ValueId rows =
          node.slice(node.add(Gather{.axis = 0}, {node.in(input), own}, name), 2, 0, half, name + "_used");
      std::vector<double> mask;
      for (const int64_t s : of_column) mask.push_back(s == stream ? 1 : 0);
      const ValueId keep =
          node.constant(Tensor::from_doubles(node.dtype(input), {half}, mask), name + "_mask");
      const ValueId part = node.pointwise(C::Mul, {rows, keep}, name + "_part");
      sum = sum == kNoValue ? part : node.pointwise(C::Add, {sum, part}, name + "_sum");
    }
    return sum;
  };
  return finish(node, heads, table(2, "cos"), table(3, "sin"));
}

// inputs: angles (B, S, D), q, q turned, k, k turned (B, H, S, D)
Values import_gemma_rotary(NodeImport& node) {
  Shape shape = node.shape(0);
  if (shape.size() != 3) node.fail("the angles need three dimensions");
  shape.insert(shape.begin() + 1, Dim(1));
  const auto table = [&](C code, std::string_view name) {
    return node.reshape(node.cast(node.pointwise(code, {node.in(0)}, name), node.dtype(1)), shape);
  };
  const ValueId cos = table(C::Cos, "cos"), sin = table(C::Sin, "sin");
  const auto turned = [&](size_t x, size_t rotated, std::string_view name) {
    return node.pointwise(C::Add,
                          {node.pointwise(C::Mul, {node.in(x), cos}, "straight"),
                           node.pointwise(C::Mul, {node.in(rotated), sin}, "across")},
                          name);
  };
  return {turned(1, 2, "q"), turned(3, 4, "k")};
}

}  // namespace

std::vector<Importer> microsoft_rotary_importers() {
  return {{"GemmaRotaryEmbedding", 1, kLatestOpset, import_gemma_rotary, kMicrosoftDomain},
          {"MRotaryEmbedding", 1, kLatestOpset, import_multimodal_rotary, kMicrosoftDomain},
          {"RotaryEmbedding", 1, kLatestOpset, import_microsoft_rotary, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
