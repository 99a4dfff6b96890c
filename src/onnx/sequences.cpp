// SPDX-License-Identifier: Apache-2.0
#include "onnx/sequences.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "onnx/sequence_slices.h"

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
  check(known.has_value(), "a position that a run finds");
  if (known->size() != 1) node.fail("its position is not one number");
  const int64_t position = known->front() < 0 ? known->front() + count : known->front();
  if (position < 0 || position > last) {
    node.fail("position " + std::to_string(known->front()) + " is not in a sequence of " +
              std::to_string(count));
  }
  return position;
}

// Whether only a run knows the position that the operator takes.
bool position_is_found(const NodeImport& node) {
  const std::string_view op = node.op_type();
  const size_t input = op == "SequenceInsert" ? 2 : 1;
  return (op == "SequenceInsert" || op == "SequenceErase" || op == "SequenceAt") && node.has(input) &&
         !node.known_ints(input);
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
  if (at(id).stacked != kNoValue) throw_unsupported("only a run finds how long its sequence is");
  return at(id).elements;
}

ValueId Sequences::as_slices(GraphBuilder& builder, const Origin& node, ValueId id) const {
  if (at(id).stacked != kNoValue) return at(id).stacked;
  return stack_slices(builder, node, at(id).elements);
}

Values Sequences::import_of_slices(NodeImport& node, ValueId slices) {
  const std::string_view op = node.op_type();
  if (op == "SequenceLength") return {slice_count(node, slices)};
  if (op == "SequenceAt") return {slice_at(node, slices)};
  if (op == "ConcatFromSequence") return {join_slices(node, slices)};
  if (op == "SequenceInsert") return {add_slices(insert_slice(node, slices))};
  return {add_slices(erase_slice(node, slices))};
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
  if (op == "SplitToSequence") {
    const auto slices = split_to_slices(node);
    return Values{slices ? add_slices(*slices) : add(split_to_list(node))};
  }
  const bool optional = op == "Optional" || op == "OptionalGetElement" || op == "OptionalHasElement";
  if (optional && node.has(0) && is_sequence(node.in(0))) {
    if (op == "OptionalHasElement") return Values{node.constant(Tensor::from<bool>({}, {true}))};
    return Values{node.in(0)};
  }
  if (knows(op) && node.has(0) && is_sequence(node.in(0)) &&
      (stacked(node.in(0)) != kNoValue || position_is_found(node)))
    return import_of_slices(node, as_slices(node.builder(), node.origin(), node.in(0)));
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
