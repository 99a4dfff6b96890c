// SPDX-License-Identifier: Apache-2.0
//
// Sequences while a model is imported: lists of values. Where lengths and positions are known, sequences
// leave nothing in the graph; a name in sight then stands for a list instead of a value. A sequence whose
// length or positions only a run finds is the slices of one tensor along its first dim where its tensors have
// one shape (sequence_slices.h), else ragged: a tensor of all their numbers and one of their shapes
// (ragged_sequence.h).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "onnx/import_node.h"
#include "onnx/ragged_sequence.h"

namespace lathe::onnx {

// The values of a graph that a sequence is: where it leaves a graph and where it comes into one.
struct SequenceForm {
  enum class Kind { Tensors, Slices, Ragged };
  Kind kind = Kind::Tensors;
  size_t tensors = 0;   // of Kind::Tensors
  CommonDims leading;   // of Kind::Ragged
  SequenceType type{};  // which tensors an empty sequence would have; forms that differ in it alone are equal

  size_t values() const { return kind == Kind::Tensors ? tensors : kind == Kind::Slices ? 1 : 2; }
  friend bool operator==(const SequenceForm& a, const SequenceForm& b) {
    return a.kind == b.kind && a.tensors == b.tensors && a.leading == b.leading;
  }
};

// The form for tensors of a type: slices where they have one shape, else ragged with that many leading dims
// at least. Of these only constant ones are kept: others may mean something else where the values come in.
SequenceForm form_of(const SequenceType& type, size_t leading = 0);
CommonDims constants_of(const CommonDims& dims);
// The ragged form that has room for tensors of another type, too.
SequenceForm wider(const SequenceForm& form, const SequenceType& other, size_t leading);
// One that has room for the sequences of both.
SequenceForm form_of_both(const SequenceForm& a, const SequenceForm& b);

class Sequences {
 public:
  // Ids of lists are no ids of values; they are below all special ones.
  static bool is_sequence(ValueId id) { return id <= kFirst; }
  ValueId add(Values elements);
  // Slices of a tensor along its first dim.
  ValueId add_slices(ValueId stacked);
  ValueId add_ragged(Ragged ragged);
  bool is_list(ValueId id) const;
  // The tensor whose slices the sequence is; kNoValue for others.
  ValueId stacked(ValueId id) const { return at(id).stacked; }
  const std::optional<Ragged>& ragged(ValueId id) const { return at(id).ragged; }
  // Of a list. Throws Unsupported for others.
  const Values& elements(ValueId id) const;
  SequenceType type(const GraphBuilder& builder, ValueId id) const;

  // What the sequence is without any change.
  SequenceForm form(const GraphBuilder& builder, ValueId id) const;
  // The sequence in a form; nothing where that has no room for it. Layers of `node` make the values, in the
  // graph that has its tensors.
  std::optional<Values> values(GraphBuilder& builder, const Origin& node, ValueId id,
                               const SequenceForm& form) const;
  // The sequence that such values are.
  ValueId add(const SequenceForm& form, const Values& values);
  // One behind the other.
  ValueId joined(GraphBuilder& builder, const Origin& node, ValueId front, ValueId behind);
  // The same sequence with other values in the place of each of its own.
  template <class Function>
  ValueId map(ValueId id, const Function& other) {
    Sequence sequence = at(id);
    for (ValueId& element : sequence.elements) element = other(element);
    if (sequence.stacked != kNoValue) sequence.stacked = other(sequence.stacked);
    if (sequence.ragged) {
      sequence.ragged->elements = other(sequence.ragged->elements);
      sequence.ragged->shapes = other(sequence.ragged->shapes);
    }
    return add(std::move(sequence));
  }

  // Whether the operator is one that only works on sequences.
  static bool knows(std::string_view op_type);
  // The results when the operator is one on sequences (or on an optional that holds one); else nothing.
  // Throws Unsupported where only a run knows a position or a length, and tensors differ in type or rank.
  std::optional<Values> import_operator(NodeImport& node);

 private:
  static constexpr ValueId kFirst = -16;
  struct Sequence {
    Values elements;
    ValueId stacked = kNoValue;
    std::optional<Ragged> ragged;
  };
  const Sequence& at(ValueId id) const { return all_.at(static_cast<size_t>(kFirst - id)); }
  ValueId add(Sequence sequence);
  Values import_found(NodeImport& node);
  Values import_of_slices(NodeImport& node, ValueId slices);
  Values import_of_ragged(NodeImport& node, const Ragged& sequence);

  std::vector<Sequence> all_;
};

}  // namespace lathe::onnx
