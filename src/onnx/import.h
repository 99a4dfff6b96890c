// SPDX-License-Identifier: Apache-2.0
//
// An ONNX model becomes a graph of core operators, with every shape known in terms of the inputs' dims.
//
// Old opsets, function bodies and convenience operators are expanded; shape computations are folded or become
// dims, so that what remains is arithmetic. importers.cpp lists the operators.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/observer.h"
#include "ir/graph.h"

namespace lathe {

struct ImportedModel {
  Graph graph;
  std::set<std::string, std::less<>> strings;  // inputs and outputs that are strings: bytes (ir/strings.h)
  ModelParsed info;                            // what the file says of itself
  std::vector<std::pair<std::string, std::string>> metadata;
  int64_t node_count = 0;        // ONNX nodes of the main graph
  int64_t quantize_count = 0;    // QuantizeLinear and DynamicQuantizeLinear
  int64_t dequantize_count = 0;  // DequantizeLinear
};

// A node that cannot be imported.
struct UnsupportedNode {
  std::string node, op_type, reason;
};

struct ImportOptions {
  // Gets the nodes that the error of an unsupported model names.
  std::vector<UnsupportedNode>* unsupported = nullptr;
  // Inputs that become constants: the graph has no such input any more. Lets a model in whose shapes or axes
  // are inputs, when they are known beforehand.
  std::map<std::string, Tensor, std::less<>> constant_inputs;
  // Shapes that inputs will have: for those that have none in the model, not even a rank, or with
  // `fix_shapes` for all of these.
  std::map<std::string, Extents, std::less<>> input_shapes;
  bool fix_shapes = false;
  // How many tensors inputs have that are sequences, or optionals: 0 or 1. Those of a sequence 'x' become the
  // inputs x_0, x_1, ...; an optional that has one is an input like any other, and without one there is none.
  std::map<std::string, int64_t, std::less<>> input_lengths;
  // Custom operators: what nothing here knows is looked for among these. Null: none.
  const PluginSource* plugins = nullptr;
  // They come before operators of the same name that are known here.
  bool plugins_first = false;
};

// Emits ModelParsed, and one line that counts Q/DQ nodes when there are any. Throws Input for damaged or
// unsupported models (all unsupported nodes are listed at once), System when a file cannot be read.
ImportedModel import_onnx(const std::filesystem::path& path, Observer& observer,
                          const ImportOptions& options = {});
// The same where every input's shape is known beforehand, perhaps. A model that is not supported with open
// dims is read for these shapes alone, with a warning; `fixed` says so.
ImportedModel import_for_shapes(const std::filesystem::path& path, Observer& observer,
                                const std::map<std::string, Extents, std::less<>>& shapes, bool& fixed,
                                const ImportOptions& others = {});
// (`others`: options besides the shapes.)
// A model in memory. `owner` keeps `bytes` alive as long as weights point into them (null: weights are
// copied); external data is looked for in `folder` (empty: there may be none).
ImportedModel import_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder,
                          Observer& observer, std::shared_ptr<const void> owner = nullptr,
                          const ImportOptions& options = {});

}  // namespace lathe
