// SPDX-License-Identifier: Apache-2.0
//
// Shapes and data movement. Dims that depend on inputs become tensors that nodes before this one compute.
#include "onnx/export_node.h"

#include <algorithm>
#include <limits>

namespace lathe::onnx {

// One dim that is not constant needs no computation: Reshape finds it.
void NodeExport::operator()(const ReshapeOp& op) {
  if (!op.shape) return result("Reshape", all_inputs(), {{"allowzero", int64_t{op.allow_zero}}});
  const auto unknown =
      std::count_if(op.shape->begin(), op.shape->end(), [](const Dim& d) { return !d.is_constant(); });
  const bool empty =
      std::any_of(op.shape->begin(), op.shape->end(), [](const Dim& d) { return d.is_constant(0); });
  if (unknown != 1 || empty)
    return result("Reshape", {in(0), graph_.dims(*op.shape)}, {{"allowzero", int64_t{1}}});
  Ints shape;
  for (const Dim& d : *op.shape) shape.push_back(d.is_constant() ? d.value() : -1);
  result("Reshape", {in(0), graph_.ints(shape)});
}

void NodeExport::operator()(const Transpose& op) {
  result("Transpose", {in(0)}, {{"perm", op.perm}});
}

void NodeExport::operator()(const Concat& op) {
  result("Concat", all_inputs(), {{"axis", op.axis}});
}

void NodeExport::operator()(const Split& op) {
  result("Split", {in(0), graph_.dims(op.sizes)}, {{"axis", op.axis}});
}

// The end in front of the first element, of a slice that runs backwards, is -1 here and a number far below in
// ONNX.
void NodeExport::operator()(const Slice& op) {
  if (!op.starts) return result("Slice", all_inputs());
  Shape ends = *op.ends;
  for (size_t i = 0; i < ends.size(); ++i)
    if (op.steps[i] < 0 && ends[i].is_constant(-1)) ends[i] = std::numeric_limits<int32_t>::min();
  result("Slice",
         {in(0), graph_.dims(*op.starts), graph_.dims(ends), graph_.ints(op.axes), graph_.ints(op.steps)});
}

void NodeExport::operator()(const Expand& op) {
  result("Expand", {in(0), dims_or_input(op.shape, 1)});
}

void NodeExport::operator()(const Tile& op) {
  result("Tile", {in(0), dims_or_input(op.repeats, 1)});
}

void NodeExport::operator()(const Pad& op) {
  const std::string_view mode = op.mode == PadMode::Reflect ? "reflect"
                                : op.mode == PadMode::Edge  ? "edge"
                                : op.mode == PadMode::Wrap  ? "wrap"
                                                            : "constant";
  result("Pad", {in(0), dims_or_input(op.pads, 1), in(2), in(3)}, {{"mode", std::string(mode)}});
}

void NodeExport::operator()(const Resize& op) {
  constexpr const char* kModes[] = {"nearest", "linear", "cubic"};
  constexpr const char* kCoordinates[] = {"half_pixel",          "half_pixel_symmetric", "pytorch_half_pixel",
                                          "align_corners",       "asymmetric",           "tf_crop_and_resize",
                                          "tf_half_pixel_for_nn"};
  constexpr const char* kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  constexpr const char* kAspects[] = {"stretch", "not_larger", "not_smaller"};
  Attributes attributes = {
      {"mode", kModes[static_cast<size_t>(op.mode)]},
      {"coordinate_transformation_mode", kCoordinates[static_cast<size_t>(op.coordinates)]},
      {"nearest_mode", kNearest[static_cast<size_t>(op.nearest)]},
      {"cubic_coeff_a", op.cubic_coeff_a},
      {"extrapolation_value", op.extrapolation_value},
      {"exclude_outside", int64_t{op.exclude_outside}},
      {"antialias", int64_t{op.antialias}}};
  if (!op.axes.empty()) attributes.emplace_back("axes", op.axes);
  const bool by_size = op.sizes || has(3);
  if (by_size) attributes.emplace_back("keep_aspect_ratio_policy", kAspects[static_cast<size_t>(op.aspect)]);
  std::string scales = by_size ? "" : in(2);
  if (!by_size && !op.scales.empty())
    scales =
        graph_.constant("scales", Tensor::from<float>({static_cast<int64_t>(op.scales.size())}, op.scales));
  result("Resize", {in(0), in(1), scales, op.sizes ? graph_.dims(*op.sizes) : in(3)}, attributes);
}

void NodeExport::operator()(const Gather& op) {
  result("Gather", all_inputs(), {{"axis", op.axis}});
}
void NodeExport::operator()(const GatherElements& op) {
  result("GatherElements", all_inputs(), {{"axis", op.axis}});
}
void NodeExport::operator()(const GatherND& op) {
  result("GatherND", all_inputs(), {{"batch_dims", op.batch_dims}});
}

namespace {

std::string name_of(ScatterReduction reduction) {
  constexpr const char* kNames[] = {"none", "add", "mul", "min", "max"};
  return kNames[static_cast<size_t>(reduction)];
}

}  // namespace

void NodeExport::operator()(const ScatterElements& op) {
  result("ScatterElements", all_inputs(), {{"axis", op.axis}, {"reduction", name_of(op.reduction)}});
}
void NodeExport::operator()(const ScatterND& op) {
  result("ScatterND", all_inputs(), {{"reduction", name_of(op.reduction)}});
}

void NodeExport::operator()(const Trilu& op) {
  result("Trilu", all_inputs(), {{"upper", int64_t{op.upper}}});
}

void NodeExport::operator()(const ReverseSequence& op) {
  result("ReverseSequence", all_inputs(), {{"batch_axis", op.batch_axis}, {"time_axis", op.time_axis}});
}

void NodeExport::operator()(const OneHot& op) {
  result("OneHot", all_inputs(), {{"axis", op.axis}});
}

void NodeExport::operator()(const DepthToSpace& op) {
  if (op.inverse && op.crd)
    return result("SpaceToDepth", {in(0)}, {{"blocksize", op.block}, {"mode", "CRD"}}, 28);
  if (op.inverse) return result("SpaceToDepth", {in(0)}, {{"blocksize", op.block}});
  result("DepthToSpace", {in(0)}, {{"blocksize", op.block}, {"mode", op.crd ? "CRD" : "DCR"}});
}

void NodeExport::operator()(const ShapeTensor& op) {
  const std::string dims = graph_.dims(op.dims);
  if (!op.scalar) return result_is(dims);
  result("Squeeze", {dims});
}

void NodeExport::operator()(const ShapeOf& op) {
  Attributes attributes = {{"start", op.start}};
  if (op.end) attributes.emplace_back("end", op.end->front());
  result("Shape", {in(0)}, attributes);
}

void NodeExport::operator()(const Range&) {
  result("Range", all_inputs());
}

void NodeExport::operator()(const Fill& op) {
  const Tensor value = Tensor::from_doubles(op.dtype, {1}, std::span(&op.value, 1));
  result("ConstantOfShape", {dims_or_input(op.shape, 0)}, {{"value", value}});
}

}  // namespace lathe::onnx
