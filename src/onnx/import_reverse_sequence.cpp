// SPDX-License-Identifier: Apache-2.0
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

Values import_reverse_sequence(NodeImport& node) {
  const ReverseSequence op{.batch_axis = node.integer("batch_axis", 1),
                           .time_axis = node.integer("time_axis", 0)};
  return {node.add(op, {node.in(0), node.in(1)})};
}

}  // namespace

std::vector<Importer> reverse_sequence_importers() {
  return {{"ReverseSequence", 10, kLatestOpset, import_reverse_sequence}};
}

}  // namespace lathe::onnx
