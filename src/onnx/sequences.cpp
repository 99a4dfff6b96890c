// SPDX-License-Identifier: Apache-2.0
#include "onnx/sequences.h"

#include <algorithm>
#include <array>
#include <string>

namespace lathe::onnx {

namespace {

ValueId sequence_input(const NodeImport& node) {
  const ValueId id = node.in(0);
  if (!Sequences::is_sequence(id)) node.fail("its first input is no sequence");
  return id;
}

// Elements, positions and sizes are tensors: all inputs from `first` on.
void check_tensors(const NodeImport& node, size_t first) {
  for (size_t i = first; i < node.input_count(); ++i)
    if (Sequences::is_sequence(node.inputs()[i]))
      throw_unsupported("input " + std::to_string(i) + " is a sequence where a tensor is expected");
}

// Input `input` as a position in a list of `count`; `last` when it is absent.
int64_t read_position(const NodeImport& node, size_t input, int64_t count, int64_t last) {
  if (!node.has(input)) return last;
  const auto known = node.known_ints(input);
  if (!known || known->size() != 1)
    throw_unsupported("its position is computed while the model runs; it must be constant");
  const int64_t position = known->front() < 0 ? known->front() + count : known->front();
  if (position < 0 || position > last) {
    node.fail("position " + std::to_string(known->front()) + " is not in a sequence of " +
              std::to_string(count));
  }
  return position;
}

constexpr int64_t kMostParts = 4096;

[[noreturn]] void refuse_parts(int64_t count) {
  throw_unsupported("it makes " + std::to_string(count) + " parts; 1 to " + std::to_string(kMostParts) +
                    " are supported");
}

// Sizes of the parts along an axis: all of one size but the last, as listed, or of one each.
Shape split_sizes(const NodeImport& node, const Dim& dim) {
  int64_t each = 1;
  if (node.has(1)) {
    const auto split = node.contents(1);
    if (!split)
      throw_unsupported("the sizes of its parts are computed while the model runs; they must be constant");
    if (node.rank(1) == 1) return *split;
    if (split->size() != 1 || !split->front().is_constant())
      throw_unsupported("the size of its parts must be constant");
    each = split->front().value();
  }
  if (!dim.is_constant()) throw_unsupported("how many parts there are depends on an input");
  if (each < 1) node.fail("the size of its parts is " + std::to_string(each));
  const int64_t count = dim.value() / each + (dim.value() % each != 0 ? 1 : 0);
  if (count > kMostParts) refuse_parts(count);
  Shape sizes;
  for (int64_t i = 0; i < count; ++i) sizes.push_back(std::min(each, dim.value() - i * each));
  return sizes;
}

Values split_to_list(NodeImport& node) {
  const int64_t axis = normalize_axis(node.integer("axis", 0), node.rank(0), "axis");
  const Dim dim = node.shape(0)[static_cast<size_t>(axis)];
  const Shape sizes = split_sizes(node, dim);
  const auto count = static_cast<int64_t>(sizes.size());
  if (count < 1 || count > kMostParts) refuse_parts(count);
  Values parts = node.add_multi(Split{.axis = axis, .sizes = sizes}, {node.in(0)}, sizes.size());
  if (node.has(1) || node.integer("keepdims", 1) != 0) return parts;
  for (ValueId& part : parts) {
    Shape shape = node.shape_of(part);
    shape.erase(shape.begin() + axis);
    part = node.reshape(part, shape, "part");
  }
  return parts;
}

ValueId concat_list(NodeImport& node, const Values& elements) {
  if (elements.empty()) node.fail("the sequence is empty");
  const bool new_axis = node.integer("new_axis", 0) != 0;
  const auto rank = static_cast<int64_t>(node.shape_of(elements[0]).size()) + (new_axis ? 1 : 0);
  const int64_t axis = normalize_axis(node.required_integer("axis"), rank, "axis");
  Values parts = elements;
  for (ValueId& part : parts) {
    if (!new_axis) break;
    Shape shape = node.shape_of(part);
    if (static_cast<int64_t>(shape.size()) + 1 != rank) node.fail("elements of the sequence differ in rank");
    shape.insert(shape.begin() + axis, Dim(1));
    part = node.reshape(part, shape, "element");
  }
  return node.add(Concat{.axis = axis}, parts);
}

// Slices (n, ...) along a new axis, or one behind the other along one that they have.
ValueId join_slices(NodeImport& node, ValueId stacked) {
  const bool new_axis = node.integer("new_axis", 0) != 0;
  const Shape shape = node.shape_of(stacked);
  const auto rank = static_cast<int64_t>(shape.size()) - (new_axis ? 0 : 1);
  const int64_t axis = normalize_axis(node.required_integer("axis"), rank, "axis");
  Ints perm;
  for (int64_t d = 1; d < static_cast<int64_t>(shape.size()); ++d) perm.push_back(d);
  perm.insert(perm.begin() + axis, 0);
  const ValueId moved = axis == 0 ? stacked : node.transpose(stacked, perm, "slices");
  if (new_axis) return moved;
  Shape joined(shape.begin() + 1, shape.end());
  joined[static_cast<size_t>(axis)] = shape[0] * joined[static_cast<size_t>(axis)];
  return node.reshape(moved, joined, "joined");
}

// Input 1 as one number.
ValueId one_position(NodeImport& node) {
  const Dim count = element_count(node.shape(1));
  if (count.is_constant() && count.value() != 1) node.fail("its position is not one number");
  return node.reshape(node.in(1), {}, "position");
}

Values inserted(const NodeImport& node, Values list) {
  const auto count = static_cast<int64_t>(list.size());
  list.insert(list.begin() + read_position(node, 2, count, count), node.in(1));
  return list;
}

Values erased(const NodeImport& node, Values list) {
  if (list.empty()) node.fail("the sequence is empty");
  const auto count = static_cast<int64_t>(list.size());
  list.erase(list.begin() + read_position(node, 1, count, count - 1));
  return list;
}

}  // namespace

ValueId as_slice(NodeImport& node, ValueId element) {
  Shape shape = node.shape_of(element);
  shape.insert(shape.begin(), 1);
  return node.reshape(element, shape, "slice");
}

ValueId Sequences::add(Values elements) {
  all_.push_back({.elements = std::move(elements)});
  return kFirst - static_cast<ValueId>(all_.size() - 1);
}

ValueId Sequences::add_slices(ValueId stacked) {
  all_.push_back({.elements = {}, .stacked = stacked});
  return kFirst - static_cast<ValueId>(all_.size() - 1);
}

ValueId Sequences::stacked(ValueId id) const {
  return at(id).stacked;
}

const Values& Sequences::elements(ValueId id) const {
  if (at(id).stacked != kNoValue)
    throw_unsupported("only a run finds how long the sequence is, to which a loop appends");
  return at(id).elements;
}

// What can be said of slices without knowing how many there are.
std::optional<Values> Sequences::import_of_slices(NodeImport& node, ValueId stacked) {
  const std::string_view op = node.op_type();
  if (op == "SequenceLength") {
    const ValueId count = node.add(ShapeOf{.start = 0, .end = Ints{1}}, {stacked}, "count");
    return Values{node.reshape(count, {}, "length")};
  }
  if (op == "SequenceAt") return Values{node.add(Gather{.axis = 0}, {stacked, one_position(node)})};
  if (op == "ConcatFromSequence") return Values{join_slices(node, stacked)};
  if (op == "SequenceInsert" && !node.has(2))
    return Values{add_slices(node.add(Concat{.axis = 0}, {stacked, as_slice(node, node.in(1))}))};
  return std::nullopt;
}

bool Sequences::knows(std::string_view op_type) {
  constexpr std::array kOperators = {"ConcatFromSequence", "SequenceAt",     "SequenceConstruct",
                                     "SequenceEmpty",      "SequenceErase",  "SequenceInsert",
                                     "SequenceLength",     "SplitToSequence"};
  return std::find(kOperators.begin(), kOperators.end(), op_type) != kOperators.end();
}

std::optional<Values> Sequences::import_operator(NodeImport& node) {
  const std::string_view op = node.op_type();
  if (knows(op)) check_tensors(node, op == "SequenceConstruct" || op == "SplitToSequence" ? 0 : 1);
  if (op == "SequenceConstruct") {
    for (size_t i = 0; i < node.input_count(); ++i) node.in(i);
    return Values{add(node.inputs())};
  }
  if (op == "SequenceEmpty") return Values{add({})};
  if (op == "SplitToSequence") return Values{add(split_to_list(node))};
  const bool optional = op == "Optional" || op == "OptionalGetElement" || op == "OptionalHasElement";
  if (optional && node.has(0) && is_sequence(node.in(0))) {
    if (op == "OptionalHasElement") return Values{node.constant(Tensor::from<bool>({}, {true}))};
    return Values{node.in(0)};
  }
  if (knows(op) && node.has(0) && is_sequence(node.in(0)) && stacked(node.in(0)) != kNoValue)
    if (auto results = import_of_slices(node, stacked(node.in(0)))) return results;
  if (op == "SequenceInsert") return Values{add(inserted(node, elements(sequence_input(node))))};
  if (op == "SequenceErase") return Values{add(erased(node, elements(sequence_input(node))))};
  if (op == "SequenceLength") {
    return Values{
        node.constant(Tensor::scalar_i64(static_cast<int64_t>(elements(sequence_input(node)).size())))};
  }
  if (op == "SequenceAt") {
    const Values& list = elements(sequence_input(node));
    const auto count = static_cast<int64_t>(list.size());
    node.in(1);
    return Values{list.at(static_cast<size_t>(read_position(node, 1, count, count - 1)))};
  }
  if (op == "ConcatFromSequence") return Values{concat_list(node, elements(sequence_input(node)))};
  return std::nullopt;
}

}  // namespace lathe::onnx
