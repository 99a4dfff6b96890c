// SPDX-License-Identifier: Apache-2.0
//
// Operators that move elements, and those whose results are shapes or follow from data.
// op.h says what holds for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/dtype.h"
#include "ir/op_fields.h"
#include "ir/shape.h"

namespace lathe {

// --- shape and data movement ------------------------------------------------------------------------------
// Where an attribute is optional<Shape> and a tensor input exists too: the importer sets the attribute
// whenever the tensor's contents are known (constant or symbolic) and leaves the input out, so the input is
// the rare, truly dynamic case.
struct ReshapeOp {  // inputs: x, [shape (int64)]; `shape` holds final dims (0 and -1 are resolved)
  static constexpr std::string_view kName = "Reshape";
  std::optional<Shape> shape;
  bool allow_zero = false;  // meaning of 0 in the tensor input
  LATHE_FIELDS(v("shape", s.shape); v("allow_zero", s.allow_zero);)
  bool operator==(const ReshapeOp&) const = default;
};
struct Transpose {
  static constexpr std::string_view kName = "Transpose";
  Ints perm;
  LATHE_FIELDS(v("perm", s.perm);)
  bool operator==(const Transpose&) const = default;
};
struct Concat {  // inputs: one or more
  static constexpr std::string_view kName = "Concat";
  int64_t axis = 0;
  LATHE_FIELDS(v("axis", s.axis);)
  bool operator==(const Concat&) const = default;
};
struct Split {  // input: x; outputs: one per size. Sizes are always set (the importer computes equal parts).
  static constexpr std::string_view kName = "Split";
  int64_t axis = 0;
  Shape sizes;
  LATHE_FIELDS(v("axis", s.axis); v("sizes", s.sizes);)
  bool operator==(const Split&) const = default;
};
// inputs: x, [starts, ends, [axes], [steps]] (int64 tensors) when `starts` is not set. Attribute form: one
// entry per axis in `axes`; starts and ends already clamped to [0, dim]; steps != 0 (negative: starts in [0,
// dim-1], ends in [-1, dim-1]).
struct Slice {
  static constexpr std::string_view kName = "Slice";
  std::optional<Shape> starts, ends;
  Ints axes, steps;
  LATHE_FIELDS(v("starts", s.starts); v("ends", s.ends); v("axes", s.axes); v("steps", s.steps);)
  bool operator==(const Slice&) const = default;
};
struct Expand {  // inputs: x, [shape]
  static constexpr std::string_view kName = "Expand";
  std::optional<Shape> shape;
  LATHE_FIELDS(v("shape", s.shape);)
  bool operator==(const Expand&) const = default;
};
struct Tile {  // inputs: x, [repeats]
  static constexpr std::string_view kName = "Tile";
  std::optional<Shape> repeats;
  LATHE_FIELDS(v("repeats", s.repeats);)
  bool operator==(const Tile&) const = default;
};
enum class PadMode : uint8_t { Constant, Reflect, Edge, Wrap };
// inputs: x, [pads (int64) when unset], [value (scalar)], [axes]; pads: begin per dim, then end per dim.
struct Pad {
  static constexpr std::string_view kName = "Pad";
  PadMode mode = PadMode::Constant;
  std::optional<Shape> pads;
  LATHE_FIELDS(v("mode", s.mode); v("pads", s.pads);)
  bool operator==(const Pad&) const = default;
};
enum class ResizeMode : uint8_t { Nearest, Linear, Cubic };
enum class CoordinateMode : uint8_t {
  HalfPixel, HalfPixelSymmetric, PytorchHalfPixel, AlignCorners, Asymmetric, TfCropAndResize, TfHalfPixelForNn
};
enum class NearestMode : uint8_t { RoundPreferFloor, RoundPreferCeil, Floor, Ceil };
enum class AspectPolicy : uint8_t { Stretch, NotLarger, NotSmaller };
// inputs: x, [roi], [scales (float)], [sizes (int64)]. `scales`/`sizes` hold constants when known (one per
// axis in `axes`, all axes when empty).
struct Resize {
  static constexpr std::string_view kName = "Resize";
  ResizeMode mode = ResizeMode::Nearest;
  CoordinateMode coordinates = CoordinateMode::HalfPixel;
  NearestMode nearest = NearestMode::RoundPreferFloor;
  AspectPolicy aspect = AspectPolicy::Stretch;
  float cubic_coeff_a = -0.75f, extrapolation_value = 0;
  bool exclude_outside = false, antialias = false;
  std::vector<float> scales;
  std::optional<Shape> sizes;
  Ints axes;
  LATHE_FIELDS(v("mode", s.mode); v("coordinates", s.coordinates); v("nearest", s.nearest); v("aspect", s.aspect);
               v("cubic_coeff_a", s.cubic_coeff_a); v("extrapolation_value", s.extrapolation_value);
               v("exclude_outside", s.exclude_outside); v("antialias", s.antialias); v("scales", s.scales);
               v("sizes", s.sizes); v("axes", s.axes);)
  bool operator==(const Resize&) const = default;
};
struct Gather {  // inputs: x, indices
  static constexpr std::string_view kName = "Gather";
  int64_t axis = 0;
  LATHE_FIELDS(v("axis", s.axis);)
  bool operator==(const Gather&) const = default;
};
struct GatherElements {  // inputs: x, indices
  static constexpr std::string_view kName = "GatherElements";
  int64_t axis = 0;
  LATHE_FIELDS(v("axis", s.axis);)
  bool operator==(const GatherElements&) const = default;
};
struct GatherND {  // inputs: x, indices
  static constexpr std::string_view kName = "GatherND";
  int64_t batch_dims = 0;
  LATHE_FIELDS(v("batch_dims", s.batch_dims);)
  bool operator==(const GatherND&) const = default;
};
enum class ScatterReduction : uint8_t { None, Add, Mul, Min, Max };
struct ScatterElements {  // inputs: x, indices, updates
  static constexpr std::string_view kName = "ScatterElements";
  int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::None;
  LATHE_FIELDS(v("axis", s.axis); v("reduction", s.reduction);)
  bool operator==(const ScatterElements&) const = default;
};
struct ScatterND {  // inputs: x, indices, updates
  static constexpr std::string_view kName = "ScatterND";
  ScatterReduction reduction = ScatterReduction::None;
  LATHE_FIELDS(v("reduction", s.reduction);)
  bool operator==(const ScatterND&) const = default;
};
struct Trilu {  // inputs: x, [k]
  static constexpr std::string_view kName = "Trilu";
  bool upper = true;
  LATHE_FIELDS(v("upper", s.upper);)
  bool operator==(const Trilu&) const = default;
};
struct ReverseSequence {  // inputs: x, lengths (int64, one per item of `batch_axis`)
  static constexpr std::string_view kName = "ReverseSequence";
  int64_t batch_axis = 1, time_axis = 0;
  LATHE_FIELDS(v("batch_axis", s.batch_axis); v("time_axis", s.time_axis);)
  bool operator==(const ReverseSequence&) const = default;
};
struct OneHot {  // inputs: indices, depth, values (off, on)
  static constexpr std::string_view kName = "OneHot";
  int64_t axis = -1;
  LATHE_FIELDS(v("axis", s.axis);)
  bool operator==(const OneHot&) const = default;
};
struct DepthToSpace {  // input: x; blocks == DCR or CRD order; inverse: SpaceToDepth
  static constexpr std::string_view kName = "DepthToSpace";
  int64_t block = 2;
  bool crd = false, inverse = false;
  LATHE_FIELDS(v("block", s.block); v("crd", s.crd); v("inverse", s.inverse);)
  bool operator==(const DepthToSpace&) const = default;
};

// --- values from shapes, data-dependent shapes ------------------------------------------------------------
// No inputs: an int64 tensor of dims, written when shapes are known. scalar: rank 0 with one dim.
struct ShapeTensor {
  static constexpr std::string_view kName = "ShapeTensor";
  Shape dims;
  bool scalar = false;
  LATHE_FIELDS(v("dims", s.dims); v("scalar", s.scalar);)
  bool operator==(const ShapeTensor&) const = default;
};
// input: x; output: int64 dims [start, end). The importer folds it to ShapeTensor when x's shape is known.
struct ShapeOf {
  static constexpr std::string_view kName = "ShapeOf";
  int64_t start = 0;
  std::optional<Ints> end;  // one entry when set
  LATHE_FIELDS(v("start", s.start); v("end", s.end);)
  bool operator==(const ShapeOf&) const = default;
};
// inputs: start, limit, delta (scalars); the length is a Dim when contents are known, else data-dependent.
struct Range {
  static constexpr std::string_view kName = "Range";
  LATHE_FIELDS()
  bool operator==(const Range&) const = default;
};
// inputs: [shape (int64) when unset]; output filled with `value` in type `dtype` (ConstantOfShape).
struct Fill {
  static constexpr std::string_view kName = "Fill";
  std::optional<Shape> shape;
  DType dtype = DType::Float32;
  double value = 0;
  LATHE_FIELDS(v("shape", s.shape); v("dtype", s.dtype); v("value", s.value);)
  bool operator==(const Fill&) const = default;
};
struct TopK {  // inputs: x, k (int64, one element); outputs: values, indices (int64)
  static constexpr std::string_view kName = "TopK";
  int64_t axis = -1;
  bool largest = true, sorted = true;
  LATHE_FIELDS(v("axis", s.axis); v("largest", s.largest); v("sorted", s.sorted);)
  bool operator==(const TopK&) const = default;
};
struct NonZero {  // input: x; output: int64 (rank, count), count data-dependent
  static constexpr std::string_view kName = "NonZero";
  LATHE_FIELDS()
  bool operator==(const NonZero&) const = default;
};
// inputs: boxes (B, N, 4), scores (B, C, N), [max_output_boxes_per_class], [iou_threshold],
// [score_threshold]; output: int64 (selected, 3), selected data-dependent.
struct NonMaxSuppression {
  static constexpr std::string_view kName = "NonMaxSuppression";
  bool center_point_box = false;
  LATHE_FIELDS(v("center_point_box", s.center_point_box);)
  bool operator==(const NonMaxSuppression&) const = default;
};

}  // namespace lathe
