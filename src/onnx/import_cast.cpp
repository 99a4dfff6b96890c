// SPDX-License-Identifier: Apache-2.0
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

Values import_cast(NodeImport& node) {
  node.required_integer("to");
  const DType to = node.element_type("to", DType::Undefined);
  return {node.add(Cast{.to = to, .saturate = node.integer("saturate", 1) != 0}, {node.in(0)})};
}

Values import_cast_like(NodeImport& node) {
  return {node.add(Cast{.to = node.dtype(1), .saturate = node.integer("saturate", 1) != 0}, {node.in(0)})};
}

}  // namespace

std::vector<Importer> cast_importers() {
  return {{"Cast", 6, kLatestOpset, import_cast}, {"CastLike", 15, kLatestOpset, import_cast_like}};
}

}  // namespace lathe::onnx
