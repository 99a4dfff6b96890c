// SPDX-License-Identifier: Apache-2.0
//
// Where a tensor lies follows from the shapes: it has as many rows as the product of its leading dims, and
// they begin where those of the tensors in front of it end.
//
// Parts along another axis than the first lie in the whole tensor between one another: of (2, 5) the parts
// with 2 and 3 columns are
//
//   0 1 | 2 3 4
//   5 6 | 7 8 9     and one behind the other they are 0 1 5 6 2 3 4 7 8 9.
//
// Row p of these belongs to a part that begins at column s and is n columns wide: it is number q = p - 2 s
// of the part, in its line q / n, and so row 5 (q / n) + s + q mod n of the whole. To join parts is the
// inverse: row p of the whole is in line p / 5 and column p mod 5, which says the part, and is its number n
// (p / 5) + p mod 5 - s.
#include "onnx/ragged_operators.h"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "onnx/sequence_positions.h"
#include "onnx/sequence_slices.h"

namespace lathe::onnx {
namespace {

using Code = PointwiseCode;

// Integers of the graph in formulas.
class Formulas {
 public:
  explicit Formulas(NodeImport& node) : node_(node) {}

  ValueId number(int64_t value) { return node_.constant(Tensor::scalar_i64(value)); }
  ValueId add(ValueId a, ValueId b) { return node_.pointwise(Code::Add, {a, b}, "sum"); }
  ValueId sub(ValueId a, ValueId b) { return node_.pointwise(Code::Sub, {a, b}, "difference"); }
  ValueId mul(ValueId a, ValueId b) { return node_.pointwise(Code::Mul, {a, b}, "product"); }
  ValueId div(ValueId a, ValueId b) { return node_.pointwise(Code::Div, {a, b}, "quotient"); }
  ValueId min(ValueId a, ValueId b) { return node_.pointwise(Code::Min, {a, b}, "smaller"); }
  ValueId less(ValueId a, ValueId b) { return node_.pointwise(Code::Less, {a, b}, "less"); }
  ValueId equal(ValueId a, ValueId b) { return node_.pointwise(Code::Equal, {a, b}, "equal"); }
  ValueId both(ValueId a, ValueId b) { return node_.pointwise(Code::And, {a, b}, "both"); }
  ValueId choose(ValueId condition, ValueId a, ValueId b) {
    return node_.pointwise(Code::Where, {condition, a, b}, "chosen");
  }
  // Of all numbers, and up to each.
  ValueId total(ValueId x) {
    Ints axes;
    for (int64_t d = 0; d < static_cast<int64_t>(node_.shape_of(x).size()); ++d) axes.push_back(d);
    return node_.reduce(ReduceKind::Sum, x, axes, false, "total");
  }
  ValueId sums(ValueId x) { return node_.add(CumSum{}, {x, number(0)}, "ends"); }
  ValueId none_of(ValueId conditions) {
    return equal(total(node_.cast(conditions, DType::Int64)), number(0));
  }
  ValueId row(ValueId one) { return node_.reshape(one, {1}, "row"); }
  ValueId read(ValueId x, ValueId places, std::string_view what) {
    return node_.add(Gather{.axis = 0}, {x, places}, what);
  }
  // Slices [start, end) of the first dim; both are (1).
  ValueId between(ValueId x, ValueId start, ValueId end, std::string_view what) {
    return node_.add(Slice{}, {x, start, end, row(number(0))}, what);
  }
  ValueId concat(const Values& parts, std::string_view what) {
    return parts.size() == 1 ? parts[0] : node_.add(Concat{.axis = 0}, parts, what);
  }
  ValueId dim(const Dim& dim, ValueId of, size_t axis) {
    return is_data_dependent({dim}) ? dim_of(node_, of, axis) : node_.dim_scalar(dim);
  }

 private:
  NodeImport& node_;
};

Dim length_of(const NodeImport& node, const Ragged& sequence) {
  return node.shape_of(sequence.shapes)[0];
}

// How many rows each tensor has.
ValueId row_counts(NodeImport& node, const Ragged& sequence) {
  if (sequence.leading.size() == 1) return node.reshape(sequence.shapes, {length_of(node, sequence)}, "rows");
  return node.reduce(ReduceKind::Prod, sequence.shapes, {1}, false, "rows");
}

Shape with_front(Shape front, const Shape& behind) {
  front.insert(front.end(), behind.begin(), behind.end());
  return front;
}

// The one dim that is not known, where it is what other dims leave of `rows`.
std::optional<size_t> single_unknown(const CommonDims& dims) {
  std::optional<size_t> unknown;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] && (!dims[d]->is_constant() || dims[d]->value() < 1)) return std::nullopt;
    if (!dims[d] && unknown) return std::nullopt;
    if (!dims[d]) unknown = d;
  }
  return unknown;
}

// Rows (rows, ...) as (dims..., ...). `find` gives all of `dims` as int64 [dims], for those that are not
// known; it is not asked where one is, and `divide` says that it is what the others leave.
ValueId with_dims(NodeImport& node, ValueId rows, const CommonDims& dims, bool divide,
                  const std::function<ValueId()>& find) {
  const Shape shape = node.shape_of(rows);
  Shape known;
  const auto unknown = divide ? single_unknown(dims) : std::nullopt;
  Dim others = 1;
  for (const auto& dim : dims) others = others * dim.value_or(1);
  for (const auto& dim : dims) known.push_back(dim.value_or(floor_div(shape[0], unknown ? others : Dim(1))));
  const Shape inner(shape.begin() + 1, shape.end());
  const bool all_known =
      std::all_of(dims.begin(), dims.end(), [](const auto& dim) { return dim.has_value(); });
  if (unknown || all_known) return node.reshape(rows, with_front(known, inner), "tensor");
  // A Range of so many numbers has the dim that a number says. The shape of a Reshape would be one that some
  // kernel has to read; so it is a view.
  Formulas f(node);
  const ValueId found = find();
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d]) continue;
    const ValueId dim = f.read(found, f.number(static_cast<int64_t>(d)), "dim");
    known[d] = node.shape_of(integers_below(node, dim))[0];
  }
  return node.reshape(rows, with_front(known, inner), "tensor");
}

// The place of input `input`, which is in [0, limit), counted from the front; else the run fails.
ValueId checked_position(NodeImport& node, size_t input, int64_t more, ValueId shapes) {
  Formulas f(node);
  const ValueId count = count_and(node, shapes, 0), limit = count_and(node, shapes, more);
  const ValueId given =
      node.has(input) ? read_position(node, input, count) : count_and(node, shapes, more - 1);
  const ValueId negative = f.less(given, f.number(0));
  const ValueId places = integers(node, node.shape_of(shapes)[0] + more);
  return f.read(places, f.choose(negative, limit, given), "place_in_sequence");
}

// Values with tensors of `other` in front of place `at`, which is (1), and without what is before place
// `behind`.
ValueId spliced(NodeImport& node, ValueId whole, ValueId at, ValueId behind,
                const std::optional<ValueId>& other, const std::optional<Dim>& length) {
  Formulas f(node);
  const ValueId front = f.between(whole, f.row(f.number(0)), at, "front");
  const ValueId rest = f.between(whole, behind, f.row(f.number(INT64_MAX)), "behind");
  const Values parts = other ? Values{front, *other, rest} : Values{front, rest};
  const ValueId all = f.concat(parts, "all");
  if (!length) return all;
  Shape shape = node.shape_of(whole);
  shape[0] = *length;
  return node.reshape(all, shape, "spliced");
}

// The first shape where all tensors have it but for dim `free`; else the run fails.
ValueId one_shape(NodeImport& node, const Ragged& sequence, std::optional<size_t> free) {
  Formulas f(node);
  const ValueId first = f.read(sequence.shapes, f.row(f.number(0)), "first_of_sequence");  // (1, dims)
  Ints mask(sequence.leading.size(), 1);
  if (free) mask[*free] = 0;
  const ValueId differs = node.pointwise(Code::Not, {f.equal(sequence.shapes, first)}, "differs");
  const ValueId counted = f.mul(node.cast(differs, DType::Int64), node.ints_constant(mask));
  const ValueId same = f.equal(f.total(counted), f.number(0));
  return required(node, first, same, "tensors_of_one_shape");
}

// The sequence as slices of one tensor; the run fails where its tensors differ.
ValueId ragged_as_slices(NodeImport& node, const Ragged& sequence) {
  Formulas f(node);
  const Dim length = length_of(node, sequence);
  CommonDims dims = sequence.leading;
  dims.insert(dims.begin(), length);
  return with_dims(node, sequence.elements, dims, false, [&] {
    const ValueId count = f.row(f.dim(length, sequence.shapes, 0));
    return f.concat({count, one_shape(node, sequence, std::nullopt)}, "dims");
  });
}

// Of `count` places, to which part each belongs, given where the parts end.
ValueId parts_of_places(NodeImport& node, const Dim& count, ValueId ends) {
  Formulas f(node);
  const ValueId none = node.expand(f.number(0), {count + 1}, "no_ends");
  const ValueId ones = node.expand(f.number(1), node.shape_of(ends), "ones");
  const ValueId marks =
      node.add(ScatterElements{.axis = 0, .reduction = ScatterReduction::Add}, {none, ends, ones}, "marks");
  return node.slice(f.sums(marks), 0, 0, count, "parts");
}

ValueId join_along(NodeImport& node, const Ragged& sequence, size_t axis) {
  Formulas f(node);
  const ValueId rows = sequence.elements;
  CommonDims dims = sequence.leading;
  dims[axis].reset();
  if (dims.size() == 1) return rows;
  const auto is_read = [&](size_t d) { return d != axis && (!dims[d] || is_data_dependent({*dims[d]})); };
  std::optional<ValueId> first;
  for (size_t d = 0; d < dims.size(); ++d)
    if (is_read(d) && !first) first = one_shape(node, sequence, axis);
  const auto dim = [&](size_t d) {
    return is_read(d) ? f.read(*first, f.number(static_cast<int64_t>(d)), "dim") : node.dim_scalar(*dims[d]);
  };
  const ValueId column = f.number(static_cast<int64_t>(axis));
  const ValueId widths = node.add(Gather{.axis = 1}, {sequence.shapes, column}, "widths");
  const Dim count = node.shape_of(rows)[0];
  ValueId lines = f.number(1), sizes = widths;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d < axis) lines = f.mul(lines, dim(d));
    if (d > axis) sizes = f.mul(sizes, dim(d));
  }
  ValueId joined = rows;
  if (axis > 0) {
    const ValueId ends = f.sums(sizes), starts = f.sub(ends, sizes), width = f.total(sizes);
    const ValueId places = integers(node, count), line = f.div(places, width);
    const ValueId at = f.sub(places, f.mul(line, width));
    const ValueId within = f.min(ends, f.dim(count, rows, 0));  // widths without lines have no rows
    const ValueId part = f.read(parts_of_places(node, count, within), at, "part");
    const ValueId start = f.read(starts, part, "start"), size = f.read(sizes, part, "size");
    const ValueId order = f.add(f.mul(lines, start), f.add(f.mul(line, size), f.sub(at, start)));
    joined = f.read(rows, order, "joined");
  }
  return with_dims(node, joined, dims, true, [&] {
    Values all;
    for (size_t d = 0; d < dims.size(); ++d) all.push_back(f.row(d == axis ? f.total(widths) : dim(d)));
    return f.concat(all, "dims");
  });
}

// No dim is larger. Greater sizes make one part, too, and dims have no room for sums of them.
constexpr int64_t kMostExtent = int64_t{1} << 40;

// Sizes along the axis, all but the last of which are one number.
ValueId equal_sizes(NodeImport& node, const Dim& dim, ValueId whole) {
  Formulas f(node);
  const auto known = node.known_ints(1);
  ValueId each = f.row(node.cast(one_position(node, 1), DType::Int64));
  if (known && known->front() < 1) node.fail("the size of its parts is " + std::to_string(known->front()));
  each = required(node, each, node.reshape(f.less(f.number(0), each), {}), "size_of_parts_above_0");
  each = node.reshape(each, {}, "each");
  ValueId places = kNoValue;
  if (known) {
    places = integers(node, ceil_div(dim, Dim(std::min(known->front(), kMostExtent))));
  } else {
    const ValueId full = f.div(whole, each), rest = f.sub(whole, f.mul(full, each));
    const ValueId count = f.add(full, f.min(rest, f.number(1)));
    places = f.between(integers(node, dim), f.row(f.number(0)), f.row(count), "parts");
  }
  const ValueId starts = f.mul(places, each);
  return f.min(each, f.sub(whole, starts));
}

ValueId listed_sizes(NodeImport& node, ValueId whole) {
  Formulas f(node);
  const ValueId sizes = node.cast(node.in(1), DType::Int64);
  const ValueId positive = f.none_of(f.less(sizes, f.number(0)));
  const ValueId fits = f.both(positive, f.equal(f.total(sizes), whole));
  const Shape row = with_front({1}, node.shape_of(sizes));
  return required(node, node.reshape(sizes, row, "sizes"), fits, "sizes_that_add_up_to_the_dim");
}

}  // namespace

ValueId ragged_at(NodeImport& node, const Ragged& sequence) {
  Formulas f(node);
  const ValueId position = node.cast(one_position(node, 1), DType::Int64), place = f.row(position);
  const ValueId counts = row_counts(node, sequence);
  const ValueId count = f.read(counts, place, "rows_at_place_in_sequence");
  const ValueId end = f.read(f.sums(counts), place, "end_at_place_in_sequence");
  const ValueId rows = f.between(sequence.elements, f.sub(end, count), end, "at");
  if (sequence.leading.size() == 1 && !sequence.leading[0]) return rows;
  return with_dims(node, rows, sequence.leading, true,
                   [&] { return f.read(sequence.shapes, position, "shape_at_place_in_sequence"); });
}

Ragged insert_ragged(NodeImport& node, const Ragged& sequence) {
  const GraphBuilder& builder = node.builder();
  const SequenceType type = common(type_of_ragged(builder, sequence), type_of_tensors(builder, {node.in(1)}));
  require_type(type);
  const CommonDims leading = type.leading(sequence.leading.size());
  const Ragged whole = with_leading(node.builder(), node.origin(), sequence, leading);
  const Ragged one = ragged_of(node.builder(), node.origin(), {node.in(1)}, leading);
  if (!node.has(2)) return joined(node.builder(), node.origin(), whole, one);
  Formulas f(node);
  const ValueId place = f.row(checked_position(node, 2, 1, whole.shapes));
  const ValueId offsets = f.concat({f.row(f.number(0)), f.sums(row_counts(node, whole))}, "offsets");
  const ValueId offset = f.read(offsets, place, "offset");
  const Dim rows = node.shape_of(whole.elements)[0] + node.shape_of(one.elements)[0];
  return {spliced(node, whole.elements, offset, offset, one.elements, rows),
          spliced(node, whole.shapes, place, place, one.shapes, length_of(node, whole) + 1), leading};
}

Ragged erase_ragged(NodeImport& node, const Ragged& sequence) {
  Formulas f(node);
  const ValueId place = f.row(checked_position(node, 1, 0, sequence.shapes));
  const ValueId counts = row_counts(node, sequence);
  const ValueId end = f.read(f.sums(counts), place, "end"),
                start = f.sub(end, f.read(counts, place, "count"));
  const ValueId next = f.add(place, f.row(f.number(1)));
  return {spliced(node, sequence.elements, start, end, std::nullopt, std::nullopt),
          spliced(node, sequence.shapes, place, next, std::nullopt, length_of(node, sequence) - 1),
          sequence.leading};
}

ValueId join_ragged(NodeImport& node, const Ragged& sequence) {
  const bool new_axis = node.integer("new_axis", 0) != 0;
  const auto dims = static_cast<int64_t>(type_of_ragged(node.builder(), sequence).dims.size());
  const int64_t axis = normalize_axis(node.required_integer("axis"), dims + (new_axis ? 1 : 0), "axis");
  if (!new_axis && axis < static_cast<int64_t>(sequence.leading.size()))
    return join_along(node, sequence, static_cast<size_t>(axis));
  return join_slices(node, ragged_as_slices(node, sequence));
}

std::optional<Ragged> split_to_ragged(NodeImport& node) {
  if (!node.has(1)) return std::nullopt;
  const auto axis = static_cast<size_t>(normalize_axis(node.integer("axis", 0), node.rank(0), "axis"));
  const Shape whole = node.shape(0);
  if (node.rank(1) > 1) node.fail("the sizes of its parts are no list");
  const bool is_list = node.rank(1) == 1;
  if (is_list ? node.contents(1).has_value() : node.known_ints(1) && whole[axis].is_constant())
    return std::nullopt;
  Formulas f(node);
  const ValueId extent = f.dim(whole[axis], node.in(0), axis);
  const ValueId sizes = is_list ? listed_sizes(node, extent) : equal_sizes(node, whole[axis], extent);
  const Dim length = node.shape_of(sizes)[0];
  const ValueId column = node.reshape(sizes, {length, 1}, "column");
  Values columns;
  ValueId lines = f.number(1);
  CommonDims leading;
  for (size_t d = 0; d < axis; ++d) {
    const ValueId dim = f.dim(whole[d], node.in(0), d);
    columns.push_back(node.expand(dim, {length, 1}, "column"));
    lines = f.mul(lines, dim);
    leading.emplace_back(whole[d]);
  }
  columns.push_back(column);
  leading.emplace_back();
  const ValueId shapes = axis == 0 ? column : node.add(Concat{.axis = 1}, columns, "shapes");
  const auto behind = whole.begin() + static_cast<std::ptrdiff_t>(axis) + 1;
  const Dim count = element_count(Shape(whole.begin(), behind));
  const Shape inner(behind, whole.end());
  const ValueId rows = axis == 0 ? node.in(0) : node.reshape(node.in(0), with_front({count}, inner), "rows");
  if (axis == 0) return Ragged{rows, shapes, leading};
  const ValueId ends = f.sums(sizes), starts = f.sub(ends, sizes);
  const ValueId part = parts_of_places(node, count, f.mul(lines, ends));
  const ValueId start = f.read(starts, part, "start"), size = f.read(sizes, part, "size");
  const ValueId number = f.sub(integers(node, count), f.mul(lines, start)), line = f.div(number, size);
  const ValueId order = f.add(f.add(f.mul(line, extent), start), f.sub(number, f.mul(line, size)));
  return Ragged{f.read(rows, order, "elements"), shapes, leading};
}

}  // namespace lathe::onnx
