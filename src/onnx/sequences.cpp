// SPDX-License-Identifier: Apache-2.0
#include "onnx/sequences.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "onnx/ragged_operators.h"
#include "onnx/sequence_positions.h"
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
int64_t known_position(const NodeImport& node, size_t input, int64_t count, int64_t last) {
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
    check(split.has_value(), "parts that a run finds");
    if (node.rank(1) == 1) return *split;
    each = split->front().value();
  }
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
  list.insert(list.begin() + known_position(node, 2, count, count), node.in(1));
  return list;
}

Values erased(const NodeImport& node, Values list) {
  if (list.empty()) node.fail("the sequence is empty");
  const auto count = static_cast<int64_t>(list.size());
  list.erase(list.begin() + known_position(node, 1, count, count - 1));
  return list;
}

}  // namespace

CommonDims constants_of(const CommonDims& dims) {
  CommonDims constants = dims;
  for (auto& dim : constants)
    if (dim && !dim->is_constant()) dim.reset();
  return constants;
}

SequenceForm form_of(const SequenceType& type, size_t leading) {
  require_type(type);
  SequenceForm form{.kind = SequenceForm::Kind::Slices, .type = type};
  if (leading == 0 && type.has_one_shape()) return form;
  form.kind = SequenceForm::Kind::Ragged;
  form.leading = constants_of(type.leading(leading));
  return form;
}

SequenceForm wider(const SequenceForm& form, const SequenceType& other, size_t leading) {
  require_type(common(form.type, other));
  if (form.type.is_empty()) return form_of(other, std::max(leading, size_t{1}));
  SequenceType type = form.type;
  std::copy(form.leading.begin(), form.leading.end(), type.dims.begin());
  const size_t count = std::max({form.leading.size(), type.leading_count(), other.leading_count(), leading});
  SequenceForm wide = form;
  wide.kind = SequenceForm::Kind::Ragged;
  wide.leading = constants_of(common(type, other).leading(count));
  wide.leading.resize(count);
  return wide;
}

SequenceForm form_of_both(const SequenceForm& a, const SequenceForm& b) {
  const SequenceForm &one = a.type.is_empty() ? b : a, &other = a.type.is_empty() ? a : b;
  require_type(common(one.type, other.type));
  const auto can_be_slices = [](const SequenceForm& form) {
    return form.kind != SequenceForm::Kind::Ragged && form.type.has_one_shape();
  };
  if (can_be_slices(one) && can_be_slices(other)) return form_of(one.type);
  const SequenceForm first = form_of(one.type, std::max(one.leading.size(), size_t{1}));
  return other.type.is_empty() ? first : wider(first, other.type, other.leading.size());
}

ValueId Sequences::add(Sequence sequence) {
  all_.push_back(std::move(sequence));
  return kFirst - static_cast<ValueId>(all_.size() - 1);
}

ValueId Sequences::add(Values elements) {
  return add(Sequence{std::move(elements), kNoValue, std::nullopt});
}

ValueId Sequences::add_slices(ValueId stacked) {
  return add(Sequence{{}, stacked, std::nullopt});
}

ValueId Sequences::add_ragged(Ragged ragged) {
  return add(Sequence{{}, kNoValue, std::move(ragged)});
}

bool Sequences::is_list(ValueId id) const {
  return at(id).stacked == kNoValue && !at(id).ragged;
}

const Values& Sequences::elements(ValueId id) const {
  if (!is_list(id)) throw_unsupported("only a run finds how long its sequence is");
  return at(id).elements;
}

SequenceType Sequences::type(const GraphBuilder& builder, ValueId id) const {
  const Sequence& sequence = at(id);
  if (sequence.ragged) return type_of_ragged(builder, *sequence.ragged);
  if (sequence.stacked == kNoValue) return type_of_tensors(builder, sequence.elements);
  const Value& value = builder.value(sequence.stacked);
  return type_of_tensor(value.dtype, Shape(value.shape.begin() + 1, value.shape.end()));
}

SequenceForm Sequences::form(const GraphBuilder& builder, ValueId id) const {
  const Sequence& sequence = at(id);
  SequenceForm form{.type = type(builder, id)};
  if (sequence.ragged) {
    form.kind = SequenceForm::Kind::Ragged;
    form.leading = sequence.ragged->leading;
  } else if (sequence.stacked != kNoValue) {
    form.kind = SequenceForm::Kind::Slices;
  } else {
    form.tensors = sequence.elements.size();
  }
  return form;
}

std::optional<Values> Sequences::values(GraphBuilder& builder, const Origin& node, ValueId id,
                                        const SequenceForm& form) const {
  const Sequence sequence = at(id);
  if (form.kind == SequenceForm::Kind::Tensors) {
    if (!is_list(id) || sequence.elements.size() != form.tensors) return std::nullopt;
    return sequence.elements;
  }
  const SequenceType own = type(builder, id);
  const bool is_empty = is_list(id) && sequence.elements.empty();
  const SequenceType given = is_empty ? form.type : own;
  require_type(given);
  if (form.kind == SequenceForm::Kind::Slices) {
    if (!given.has_one_shape() || sequence.ragged) return std::nullopt;
    if (sequence.stacked != kNoValue) return Values{sequence.stacked};
    return Values{is_empty ? slices_of_none(builder, node, given)
                           : stack_slices(builder, node, sequence.elements)};
  }
  const CommonDims& leading = form.leading;
  const size_t least = sequence.ragged ? sequence.ragged->leading.size() : given.leading_count();
  if (least > leading.size() || leading.size() > given.dims.size()) return std::nullopt;
  for (size_t d = 0; d < leading.size() && !is_empty; ++d)
    if (leading[d] && leading[d] != given.dims[d]) return std::nullopt;
  const Ragged made = is_empty          ? ragged_of_none(builder, node, given, leading)
                      : sequence.ragged ? with_leading(builder, node, *sequence.ragged, leading)
                      : is_list(id)     ? ragged_of(builder, node, sequence.elements, leading)
                                        : ragged_of_slices(builder, node, sequence.stacked, leading);
  return Values{made.elements, made.shapes};
}

ValueId Sequences::add(const SequenceForm& form, const Values& values) {
  check(values.size() == form.values(), "a sequence of other values than its form has");
  if (form.kind == SequenceForm::Kind::Tensors) return add(values);
  if (form.kind == SequenceForm::Kind::Slices) return add_slices(values[0]);
  return add_ragged({values[0], values[1], form.leading});
}

ValueId Sequences::joined(GraphBuilder& builder, const Origin& node, ValueId front, ValueId behind) {
  if (is_list(front) && at(front).elements.empty()) return behind;
  const SequenceForm one = form(builder, front), other = form(builder, behind);
  const SequenceType type = common(one.type, other.type);
  require_type(type);
  SequenceForm whole{.kind = SequenceForm::Kind::Slices, .type = type};
  if (!type.has_one_shape() || ragged(front) || ragged(behind)) {
    whole.kind = SequenceForm::Kind::Ragged;
    whole.leading = type.leading(std::max(one.leading.size(), other.leading.size()));
  }
  const auto first = values(builder, node, front, whole), second = values(builder, node, behind, whole);
  check(first && second, "a sequence that fits into no form");
  Values all;
  for (size_t i = 0; i < first->size(); ++i)
    all.push_back(
        builder.add(node.name + "/joined", Concat{.axis = 0}, {first->at(i), second->at(i)}, {node})[0]);
  return add(whole, all);
}

Values Sequences::import_of_slices(NodeImport& node, ValueId slices) {
  const std::string_view op = node.op_type();
  if (op == "SequenceLength") return {dim_of(node, slices, 0)};
  if (op == "SequenceAt") return {slice_at(node, slices)};
  if (op == "ConcatFromSequence") return {join_slices(node, slices)};
  if (op == "SequenceInsert") return {add_slices(insert_slice(node, slices))};
  return {add_slices(erase_slice(node, slices))};
}

Values Sequences::import_of_ragged(NodeImport& node, const Ragged& sequence) {
  const std::string_view op = node.op_type();
  if (op == "SequenceLength") return {dim_of(node, sequence.shapes, 0)};
  if (op == "SequenceAt") return {ragged_at(node, sequence)};
  if (op == "ConcatFromSequence") return {join_ragged(node, sequence)};
  if (op == "SequenceInsert") return {add_ragged(insert_ragged(node, sequence))};
  return {add_ragged(erase_ragged(node, sequence))};
}

// An operator on a sequence of which only a run finds the length, or the position that it takes.
Values Sequences::import_found(NodeImport& node) {
  SequenceType all = type(node.builder(), node.in(0));
  if (node.op_type() == "SequenceInsert") {
    const SequenceType inserted = type_of_tensors(node.builder(), {node.in(1)});
    if (!all.is_empty() && all.dtype != inserted.dtype)
      node.fail("it inserts a tensor of another type than the sequence has");
    all = common(all, inserted);
  }
  require_type(all);
  SequenceForm form{.kind = SequenceForm::Kind::Slices, .type = all};
  if (ragged(node.in(0)) || !all.has_one_shape()) {
    form.kind = SequenceForm::Kind::Ragged;
    form.leading = all.leading(ragged(node.in(0)) ? ragged(node.in(0))->leading.size() : 1);
  }
  auto made = values(node.builder(), node.origin(), node.in(0), form);
  check(made.has_value(), "a sequence that fits into no form");
  // Slices of nothing have no dims of their own; a tensor joins those that have its dims.
  if (form.kind == SequenceForm::Kind::Slices && node.op_type() == "SequenceInsert" && is_list(node.in(0)) &&
      elements(node.in(0)).empty())
    made = Values{node.slice(as_slice(node.builder(), node.origin(), node.in(1)), 0, 0, 0)};
  if (form.kind == SequenceForm::Kind::Slices) return import_of_slices(node, made->front());
  return import_of_ragged(node, {made->at(0), made->at(1), form.leading});
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
  if (op == "SequenceEmpty") return Values{add(Values{})};
  if (op == "SplitToSequence") {
    const auto slices = split_to_slices(node);
    if (slices) return Values{add_slices(*slices)};
    auto ragged = split_to_ragged(node);
    return Values{ragged ? add_ragged(*std::move(ragged)) : add(split_to_list(node))};
  }
  const bool optional = op == "Optional" || op == "OptionalGetElement" || op == "OptionalHasElement";
  if (optional && node.has(0) && is_sequence(node.in(0))) {
    if (op == "OptionalHasElement") return Values{node.constant(Tensor::from<bool>({}, {true}))};
    return Values{node.in(0)};
  }
  if (knows(op) && node.has(0) && is_sequence(node.in(0)) &&
      (!is_list(node.in(0)) || position_is_found(node)))
    return import_found(node);
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
    return Values{list.at(static_cast<size_t>(known_position(node, 1, count, count - 1)))};
  }
  if (op == "ConcatFromSequence") return Values{concat_list(node, elements(sequence_input(node)))};
  return std::nullopt;
}

}  // namespace lathe::onnx
