// SPDX-License-Identifier: Apache-2.0
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

E8M0Rounding read_round_mode(const NodeImport& node) {
  const std::string mode = node.text("round_mode", "up");
  if (mode == "up") return E8M0Rounding::Up;
  if (mode == "down") return E8M0Rounding::Down;
  if (mode == "nearest") return E8M0Rounding::Nearest;
  node.fail("round_mode is '" + mode + "', expected up, down or nearest");
}

ValueId add_cast(NodeImport& node, DType to) {
  return node.add(
      Cast{.to = to, .saturate = node.integer("saturate", 1) != 0, .round = read_round_mode(node)},
      {node.in(0)});
}

Values import_cast(NodeImport& node) {
  node.required_integer("to");
  const DType to = node.element_type("to", DType::Undefined);
  return {add_cast(node, to)};
}

Values import_cast_like(NodeImport& node) {
  return {add_cast(node, node.dtype(1))};
}

Values import_bit_cast(NodeImport& node) {
  node.required_integer("to");
  return {node.add(BitCast{.to = node.element_type("to", DType::Undefined)}, {node.in(0)})};
}

}  // namespace

std::vector<Importer> cast_importers() {
  return {{"BitCast", 26, kLatestOpset, import_bit_cast},
          {"Cast", 6, kLatestOpset, import_cast},
          {"CastLike", 15, kLatestOpset, import_cast_like}};
}

}  // namespace lathe::onnx
