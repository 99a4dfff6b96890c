// SPDX-License-Identifier: Apache-2.0
//
// Pad: pads and value as attributes (opset 2), as inputs (11), for some axes only (18).
#include <cstdlib>

#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

PadMode read_pad_mode(const NodeImport& node) {
  const std::string mode = node.text("mode", "constant");
  if (mode == "constant") return PadMode::Constant;
  if (mode == "reflect") return PadMode::Reflect;
  if (mode == "edge") return PadMode::Edge;
  if (mode == "wrap") return PadMode::Wrap;
  node.fail("mode is '" + mode + "', not constant, reflect, edge or wrap");
}

Values import_pad_attributes(NodeImport& node) {
  const auto pads = node.ints("pads");
  if (!pads || pads->size() != 2 * node.shape(0).size()) node.fail("pads needs two entries per dimension");
  const ValueId value = node.scalar(node.real("value", 0), node.dtype(0));
  return {node.add(Pad{.mode = read_pad_mode(node), .pads = to_shape(*pads)}, {node.in(0), kNoValue, value})};
}

// Pads of some axes, spread over all dimensions.
Shape spread(const NodeImport& node, const Shape& pads, const Ints& axes) {
  const size_t rank = node.shape(0).size();
  Shape all(2 * rank, Dim(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(normalize_axis(axes[i], node.rank(0), "axes"));
    all[axis] = pads[i];
    all[rank + axis] = pads[axes.size() + i];
  }
  return all;
}

// Other types would be read as other numbers: a pad of -1 in bytes is 255.
void check_pad_types(const NodeImport& node) {
  if (node.dtype(1) != DType::Int64)
    node.fail("its pads (input 1) are " + std::string(dtype_name(node.dtype(1))) + ", expected int64");
  if (node.has(3) && node.dtype(3) != DType::Int64 && node.dtype(3) != DType::Int32)
    node.fail("its axes (input 3) are " + std::string(dtype_name(node.dtype(3))) +
              ", expected int32 or int64");
}

Values import_pad(NodeImport& node) {
  check_pad_types(node);
  const auto pads = node.contents(1);
  const auto axes = node.known_ints(3);
  const Pad op{.mode = read_pad_mode(node)};
  if (!pads || (node.has(3) && !axes)) {
    return {node.add(op, {node.in(0), node.in(1), node.in_or_none(2), node.in_or_none(3)})};
  }
  if (pads->size() != 2 * (axes ? axes->size() : node.shape(0).size())) {
    node.fail("pads has " + std::to_string(pads->size()) + " entries; it needs two per padded dimension");
  }
  Pad known = op;
  known.pads = axes ? spread(node, *pads, *axes) : *pads;
  return {node.add(known, {node.in(0), kNoValue, node.in_or_none(2)})};
}

// The same with a target that only a run knows: bounds and pads are computed on lists of integers.
ValueId center_at_run_time(NodeImport& node, const Ints& axes) {
  using C = PointwiseCode;
  Shape dims;
  Ints places;
  for (const int64_t axis : axes) {
    places.push_back(normalize_axis(axis, node.rank(0), "axes"));
    dims.push_back(node.shape(0)[static_cast<size_t>(places.back())]);
  }
  if (node.rank(1) != 1 || !(node.shape(1)[0] == Dim(static_cast<int64_t>(axes.size()))) ||
      is_data_dependent(dims))
    throw_unsupported(
        "its target shape needs one entry per axis, and its input a shape that is known at import");
  const ValueId zero = node.scalar(0, DType::Int64), two = node.scalar(2, DType::Int64), target = node.in(1);
  const ValueId have = node.add(ShapeTensor{.dims = dims}, {}, "dims"), where = node.ints_constant(places);
  const ValueId more =
      node.pointwise(C::Max, {node.pointwise(C::Sub, {have, target}, "surplus"), zero}, "cropped");
  const ValueId start = node.pointwise(C::Div, {more, two}, "crop_start");
  const ValueId end =
      node.pointwise(C::Add, {start, node.pointwise(C::Min, {have, target}, "kept")}, "crop_end");
  const ValueId cropped = node.add(Slice{}, {node.in(0), start, end, where}, "crop");
  const ValueId missing =
      node.pointwise(C::Max, {node.pointwise(C::Sub, {target, have}, "deficit"), zero}, "missing");
  const ValueId before = node.pointwise(C::Div, {missing, two}, "pad_before");
  const ValueId pads =
      node.add(Concat{.axis = 0}, {before, node.pointwise(C::Sub, {missing, before}, "pad_after")}, "pads");
  return node.add(Pad{}, {cropped, pads, kNoValue, where});
}

// Each axis is cropped or padded around its middle; an odd remainder goes to the end.
Values import_center_crop_pad(NodeImport& node) {
  const auto target = node.known_ints(1);
  Ints axes = node.ints("axes").value_or(Ints());
  for (int64_t i = 0; !node.has_attribute("axes") && i < node.rank(0); ++i) axes.push_back(i);
  if (!target) return {center_at_run_time(node, axes)};
  if (axes.size() != target->size()) node.fail("the target shape needs one entry per axis");
  Shape pads(2 * node.shape(0).size(), Dim(0));
  ValueId x = node.in(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = normalize_axis(axes[i], node.rank(0), "axes");
    const Dim dim = node.shape(0)[static_cast<size_t>(axis)];
    if (!dim.is_constant())
      throw_unsupported("dimension " + std::to_string(axis) + " of its input is not constant");
    const int64_t have = dim.value(), want = (*target)[i], begin = std::abs(have - want) / 2;
    if (want < have) x = node.slice(x, axis, begin, begin + want, "crop" + std::to_string(axis));
    if (want > have) {
      pads[static_cast<size_t>(axis)] = begin;
      pads[node.shape(0).size() + static_cast<size_t>(axis)] = want - have - begin;
    }
  }
  return {node.add(Pad{.pads = pads}, {x})};
}

}  // namespace

std::vector<Importer> pad_importers() {
  return {{"CenterCropPad", 18, kLatestOpset, import_center_crop_pad},
          {"Pad", 2, 10, import_pad_attributes},
          {"Pad", 11, kLatestOpset, import_pad}};
}

}  // namespace lathe::onnx
