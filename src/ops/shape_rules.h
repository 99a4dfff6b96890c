// SPDX-License-Identifier: Apache-2.0
//
// Shape arithmetic of ONNX's data movement, on dims that may be symbolic. The importer uses it to turn tensor
// inputs into attributes (ir/op.h says in which normal form), the operators' shape rules use it for what
// stays an input.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/op.h"
#include "ops/op_def.h"

namespace lathe {

// "float32[2, n]", as messages say it.
std::string type_text(DType dtype, const Shape& shape);

// Reshape: 0 copies the input's dim (unless allow_zero), -1 takes what is left. Throws Input when it cannot
// fit.
Shape resolve_reshape(const Shape& input, const Shape& requested, bool allow_zero);

// A bound of a slice counted from the front: negative ones count from the end of `dim`. Not clamped. Exact
// for symbols >= 0, those included whose sign is not known: x[-m:] starts at dim - m, but at 0 when m is 0.
Dim count_from_front(const Dim& bound, const Dim& dim);

// Slice along one axis, ONNX's rules: negative bounds count from the end, all are clamped. `step` != 0.
struct SliceBounds {
  Dim start, end;  // in the attribute form of Slice
  Dim length;
};
SliceBounds clamp_slice(const Dim& start, const Dim& end, int64_t step, const Dim& dim);
// The number of elements between normalized bounds.
Dim slice_length(const Dim& start, const Dim& end, int64_t step);

// Split into `parts`: equal pieces, the last one smaller (opset 18). Throws Input when it leaves a piece
// without elements that the rule does not allow.
Shape split_evenly(const Dim& dim, int64_t parts);

// Expand: numpy's two-way broadcast, -1 is not special.
Shape expand_shape(const Shape& input, const Shape& requested);

// The result of a Resize by scales (floor(dim * scale), exact in the float's value) or by sizes, which are
// one per entry of op.axes or one per dim. nullopt when an aspect policy meets symbolic dims.
Shape resize_shape(const Resize& op, const Shape& input, std::span<const float> scales);
std::optional<Shape> resize_shape_for_sizes(const Resize& op, const Shape& input, const Shape& sizes);

// Pads of all dims, begin then end, from those of `axes`.
Shape pads_of_all_dims(const Shape& pads, const std::optional<Ints>& axes, int64_t rank);

// Elements of Range(start, limit, delta).
Dim range_length(const Dim& start, const Dim& limit, int64_t delta);

// An upper bound for what can only be known when the layer has run and that no input bounds (Range over
// data).
inline constexpr int64_t kUnboundedUpper = (int64_t{1} << 31) - 1;
// A shape of `rank` dims that are known when the layer has run: "<node>.<prefix>0", "<node>.<prefix>1", ...
Shape data_dependent_shape(const InferContext& context, int64_t rank, const Dim& upper);
// The number of elements of a one-dimensional shape input, which gives the rank of a result. Throws Input.
int64_t shape_input_length(const InferContext& context, size_t input);

}  // namespace lathe
