// SPDX-License-Identifier: Apache-2.0
//
// Pad: pads and value as attributes (opset 2), as inputs (11), for some axes only (18).
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

PadMode read_mode(const NodeImport& node) {
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
  return {node.add(Pad{.mode = read_mode(node), .pads = to_shape(*pads)}, {node.in(0), kNoValue, value})};
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

Values import_pad(NodeImport& node) {
  const auto pads = node.contents(1);
  const auto axes = node.known_ints(3);
  const Pad op{.mode = read_mode(node)};
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

}  // namespace

std::vector<Importer> pad_importers() {
  return {{"Pad", 2, 10, import_pad_attributes}, {"Pad", 11, kLatestOpset, import_pad}};
}

}  // namespace lathe::onnx
