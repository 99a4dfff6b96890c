// SPDX-License-Identifier: Apache-2.0
//
// Optionals of tensors: what a tensor is in the place of an optional is known at import, so nothing is left
// of these.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

Values import_has_element(NodeImport& node) {
  return {node.constant(Tensor::from<bool>({}, {node.has(0)}))};
}

Values import_get_element(NodeImport& node) {
  if (!node.has(0)) node.fail("the optional has no element");
  return {node.in(0)};
}

// Without an input it is empty: its readers see an absent input.
Values import_optional(NodeImport& node) {
  if (!node.has(0)) throw_unsupported("an optional that is empty is not supported");
  return {node.in(0)};
}

}  // namespace

std::vector<Importer> optional_importers() {
  return {{"Optional", 15, kLatestOpset, import_optional},
          {"OptionalGetElement", 15, kLatestOpset, import_get_element},
          {"OptionalHasElement", 15, kLatestOpset, import_has_element}};
}

}  // namespace lathe::onnx
