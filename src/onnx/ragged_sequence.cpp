// SPDX-License-Identifier: Apache-2.0
#include "onnx/ragged_sequence.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "onnx/model.h"

namespace lathe::onnx {
namespace {

ValueId add(GraphBuilder& builder, const Origin& node, std::string_view suffix, Op op, Values inputs) {
  return builder.add(node.name + "/" + std::string(suffix), std::move(op), std::move(inputs), {node})[0];
}

Dim count_of(const Shape& shape, size_t first, size_t last) {
  return element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(first),
                             shape.begin() + static_cast<std::ptrdiff_t>(last)));
}

// Rows of what is behind the leading dims.
Shape as_rows(const Shape& shape, size_t first, size_t last) {
  Shape rows = {count_of(shape, first, last)};
  rows.insert(rows.end(), shape.begin() + static_cast<std::ptrdiff_t>(last), shape.end());
  return rows;
}

// Dims [first, last) of a value as a row of numbers.
ValueId dims_row(GraphBuilder& builder, const Origin& node, ValueId value, size_t first, size_t last) {
  const auto start = static_cast<int64_t>(first), end = static_cast<int64_t>(last);
  const ValueId dims = add(builder, node, "dims", ShapeOf{.start = start, .end = Ints{end}}, {value});
  return add(builder, node, "shape", ReshapeOp{.shape = Shape{1, end - start}}, {dims});
}

ValueId concat(GraphBuilder& builder, const Origin& node, std::string_view suffix, const Values& parts,
               int64_t axis = 0) {
  return parts.size() == 1 ? parts[0] : add(builder, node, suffix, Concat{.axis = axis}, parts);
}

// The shape of no tensors, one behind the other. What only runs find of tensors that there are elsewhere
// may be out of sight here, and is 0.
Shape no_tensors(const SequenceType& type) {
  Shape shape = {0};
  for (const auto& dim : type.dims) shape.push_back(dim && !is_data_dependent({*dim}) ? *dim : Dim(0));
  return shape;
}

ValueId zeros(GraphBuilder& builder, const Origin& node, DType dtype, const Shape& shape) {
  const double zero = 0;
  const ValueId one =
      builder.add_constant(node.name + "/zero", Tensor::from_doubles(dtype, {}, std::span(&zero, 1)));
  return add(builder, node, "none", Expand{.shape = shape}, {one});
}

std::string text(const SequenceType& type) {
  std::string all = std::string(dtype_name(type.dtype)) + "[";
  for (size_t d = 0; d < type.dims.size(); ++d)
    all += (d > 0 ? ", " : "") + (type.dims[d] ? type.dims[d]->to_string() : std::string("?"));
  return all + "]";
}

}  // namespace

bool SequenceType::has_one_shape() const {
  return problem.empty() &&
         std::all_of(dims.begin(), dims.end(), [](const auto& dim) { return dim.has_value(); });
}

size_t SequenceType::leading_count() const {
  const auto last =
      std::find_if(dims.rbegin(), dims.rend(), [](const auto& dim) { return !dim.has_value(); });
  return std::max(static_cast<size_t>(dims.rend() - last), std::min(dims.size(), size_t{1}));
}

CommonDims SequenceType::leading(size_t at_least) const {
  return {dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(std::max(leading_count(), at_least))};
}

SequenceType type_of_tensor(DType dtype, const Shape& shape) {
  return {dtype, CommonDims(shape.begin(), shape.end()), {}};
}

SequenceType type_of_tensors(const GraphBuilder& builder, const Values& tensors) {
  SequenceType type;
  for (const ValueId id : tensors)
    type = common(type, type_of_tensor(builder.value(id).dtype, builder.value(id).shape));
  return type;
}

SequenceType common(const SequenceType& a, const SequenceType& b) {
  if (a.is_empty() || !b.problem.empty()) return b;
  if (b.is_empty() || !a.problem.empty()) return a;
  SequenceType type = a;
  if (a.dtype != b.dtype || a.dims.size() != b.dims.size()) {
    type.problem = "its sequence has tensors " + text(a) + " and " + text(b) +
                   "; where only a run finds lengths or positions all have one element type and rank";
    return type;
  }
  for (size_t d = 0; d < type.dims.size(); ++d)
    if (type.dims[d] && !(b.dims[d] && *type.dims[d] == *b.dims[d])) type.dims[d].reset();
  return type;
}

void require_type(const SequenceType& type) {
  if (!type.problem.empty()) throw_unsupported(type.problem);
  if (type.is_empty())
    throw_unsupported(
        "nothing says of which tensors an empty sequence is, whose length or positions a run finds");
}

SequenceType type_of_ragged(const GraphBuilder& builder, const Ragged& sequence) {
  const Value& elements = builder.value(sequence.elements);
  SequenceType type{elements.dtype, sequence.leading, {}};
  type.dims.insert(type.dims.end(), elements.shape.begin() + 1, elements.shape.end());
  return type;
}

Ragged ragged_of(GraphBuilder& builder, const Origin& node, const Values& tensors,
                 const CommonDims& leading) {
  Values rows, shapes;
  for (const ValueId tensor : tensors) {
    const Shape whole = builder.value(tensor).shape;
    rows.push_back(
        add(builder, node, "rows", ReshapeOp{.shape = as_rows(whole, 0, leading.size())}, {tensor}));
    shapes.push_back(dims_row(builder, node, tensor, 0, leading.size()));
  }
  return {concat(builder, node, "elements", rows), concat(builder, node, "shapes", shapes), leading};
}

Ragged ragged_of_slices(GraphBuilder& builder, const Origin& node, ValueId slices,
                        const CommonDims& leading) {
  const Shape whole = builder.value(slices).shape;
  const size_t end = 1 + leading.size();
  const ValueId elements =
      add(builder, node, "elements", ReshapeOp{.shape = as_rows(whole, 0, end)}, {slices});
  const ValueId row = dims_row(builder, node, slices, 1, end);
  const Shape all = {whole[0], static_cast<int64_t>(leading.size())};
  return {elements, add(builder, node, "shapes", Expand{.shape = all}, {row}), leading};
}

Ragged ragged_of_none(GraphBuilder& builder, const Origin& node, const SequenceType& type,
                      const CommonDims& leading) {
  const auto columns = static_cast<int64_t>(leading.size());
  Shape none = no_tensors(type);
  none.erase(none.begin() + 1, none.begin() + 1 + columns);
  return {zeros(builder, node, type.dtype, none),
          builder.add_constant(node.name + "/shapes", Tensor::from<int64_t>({0, columns}, {})), leading};
}

ValueId slices_of_none(GraphBuilder& builder, const Origin& node, const SequenceType& type) {
  return zeros(builder, node, type.dtype, no_tensors(type));
}

Ragged with_leading(GraphBuilder& builder, const Origin& node, const Ragged& sequence,
                    const CommonDims& leading) {
  const size_t before = sequence.leading.size();
  check(leading.size() >= before, "a sequence that loses leading dims");
  const size_t more = leading.size() - before;
  if (more == 0) return {sequence.elements, sequence.shapes, leading};
  const Shape rows = builder.value(sequence.elements).shape;
  const ValueId elements =
      add(builder, node, "elements", ReshapeOp{.shape = as_rows(rows, 0, 1 + more)}, {sequence.elements});
  const ValueId row = dims_row(builder, node, sequence.elements, 1, 1 + more);
  const Shape columns = {builder.value(sequence.shapes).shape[0], static_cast<int64_t>(more)};
  const ValueId others = add(builder, node, "other_dims", Expand{.shape = columns}, {row});
  return {elements, concat(builder, node, "shapes", {sequence.shapes, others}, 1), leading};
}

Ragged joined(GraphBuilder& builder, const Origin& node, const Ragged& front, const Ragged& behind) {
  return {concat(builder, node, "elements", {front.elements, behind.elements}),
          concat(builder, node, "shapes", {front.shapes, behind.shapes}),
          common({DType::Int64, front.leading, {}}, {DType::Int64, behind.leading, {}}).dims};
}

}  // namespace lathe::onnx
