// SPDX-License-Identifier: Apache-2.0
//
// Sequences whose lengths or positions only a run finds and whose tensors differ in shape. Such a sequence is
// two tensors, of which the first has all numbers, one tensor behind the other, and the second all shapes:
//
//   [1 2]   [5]              elements: 1 2 3 4 5 6      shapes: 2 2
//   [3 4] , [6]                                                 2 1
//
// Dims at the end in which all tensors agree stay dims of `elements`, so that their readers know them: rows
// of four numbers each, of which one tensor has 3 and another 5, are elements (8, 4) and shapes (2, 1).
// Only dims in front of these, the leading ones, are in `shapes`. At least one dim is leading.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "onnx/graph_builder.h"

namespace lathe::onnx {

// Dims of a sequence's tensors; nothing where they differ.
using CommonDims = std::vector<std::optional<Dim>>;

// What all tensors of a sequence have in common.
struct SequenceType {
  DType dtype = DType::Undefined;  // undefined: there are no tensors
  CommonDims dims;
  std::string problem;  // why no tensor has room for them all: they differ in type or rank; else empty

  bool is_empty() const { return dtype == DType::Undefined; }
  bool has_one_shape() const;
  // How many dims are leading ones, and these dims.
  size_t leading_count() const;
  CommonDims leading(size_t at_least = 1) const;
};

SequenceType type_of_tensor(DType dtype, const Shape& shape);
SequenceType type_of_tensors(const GraphBuilder& builder, const Values& tensors);
SequenceType common(const SequenceType& a, const SequenceType& b);
// Throws Unsupported where there is a problem, or nothing says of which tensors the sequence is.
void require_type(const SequenceType& type);

struct Ragged {
  ValueId elements = kNoValue;  // (rows, dims that are no leading ones...)
  ValueId shapes = kNoValue;    // int64 (tensors, leading dims)
  CommonDims leading;
};

SequenceType type_of_ragged(const GraphBuilder& builder, const Ragged& sequence);
// Layers of `node` that make such a sequence of tensors, of slices, or of none; all dims behind the leading
// ones must be known.
Ragged ragged_of(GraphBuilder& builder, const Origin& node, const Values& tensors, const CommonDims& leading);
Ragged ragged_of_slices(GraphBuilder& builder, const Origin& node, ValueId slices, const CommonDims& leading);
Ragged ragged_of_none(GraphBuilder& builder, const Origin& node, const SequenceType& type,
                      const CommonDims& leading);
// No tensors as slices of one.
ValueId slices_of_none(GraphBuilder& builder, const Origin& node, const SequenceType& type);
// The same sequence with at least as many leading dims.
Ragged with_leading(GraphBuilder& builder, const Origin& node, const Ragged& sequence,
                    const CommonDims& leading);
// One behind the other, with equally many leading dims.
Ragged joined(GraphBuilder& builder, const Origin& node, const Ragged& front, const Ragged& behind);

}  // namespace lathe::onnx
