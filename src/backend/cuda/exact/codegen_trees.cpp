// SPDX-License-Identifier: Apache-2.0
//
// TreeEnsemble: a block for each row of x. Its threads walk the trees, a tree each, to leaves that they leave
// in shared memory; then the threads of a target add up the weights of their part of the trees, and the parts
// are added in the order of the trees. Sums are double, as the oracle's.
//
// Bytes: a node is 16 (feature and mode, threshold, children), read from the L2 or L1 at each level of a
// walk, and rows come once. Thresholds of float64 are a table of their own. The walk is a chain of loads:
// about 250 cycles a level from the L2.
//
// The tables are checked at build (ops/tree.h): a walk never leaves them, and a feature that x does not have
// is refused there.
#include <bit>

#include "backend/cuda/codegen/own_tactic.h"
#include "base/error.h"
#include "lathe_device_text/trees.h"
#include "ops/tree.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kTreesRunner = "Trees";
constexpr int kTreeThreads = 256;
constexpr int64_t kMostTargets = 4096, kMostTrees = 8192;
using T = TreeEnsemble;

std::vector<Tensor> tables_of(const LayerQuery& query) {
  std::vector<Tensor> tables(T::kInputs);
  for (size_t i = 1; i < T::kInputs; ++i) tables[i] = query.graph.value(query.layer().inputs[i]).constant;
  return tables;
}

Support supports_trees(const LayerQuery& query, DType type) {
  const Node& node = query.layer();
  if (!is_kernel_float(type) && type != DType::Float64)
    return Support::no("no kernel for " + std::string(dtype_name(type)));
  for (size_t i = 1; i < T::kInputs; ++i)
    if (!query.graph.value(node.inputs[i]).is_constant())
      return Support::no("a table is computed at run time");
  const auto& op = std::get<T>(node.op);
  if (op.targets > kMostTargets) return Support::no("more than " + std::to_string(kMostTargets) + " targets");
  const Dim& trees = input_shape(query, T::kRoots)[0];
  if (!trees.is_constant() || trees.value() > kMostTrees)
    return Support::no("more than " + std::to_string(kMostTrees) + " trees");
  if (!input_shape(query, 0)[1].is_constant())
    return Support::no("the features of a row are known only at run time");
  return {};
}

std::vector<Tactic> list_trees(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<T>(node.op)) return {};
  // Thresholds decide in the type of the model: no other is offered.
  const DType type = query.graph.value(node.inputs[0]).dtype;
  Tactic t = typed_tactic(query, kTreesRunner, "cuda_trees", {type, kLinear}, {type, kLinear});
  if (t.support.ok) t.support = supports_trees(query, type);
  for (size_t i = 1; i < T::kInputs; ++i) t.inputs[i] = {};
  return {t};
}

template <class Element>
std::vector<std::byte> bytes_of(const std::vector<Element>& values) {
  const auto* from = reinterpret_cast<const std::byte*>(values.data());
  return {from, from + values.size() * sizeof(Element)};
}

std::vector<std::byte> floats_of(const std::vector<double>& values) {
  return bytes_of(std::vector<float>(values.begin(), values.end()));
}
std::vector<std::byte> doubles_of(const std::vector<double>& values) {
  return bytes_of(values);
}
std::vector<std::byte> ints_of(const std::vector<int64_t>& values) {
  return bytes_of(std::vector<int32_t>(values.begin(), values.end()));
}

void check_features(const TreeTables& t, int64_t width) {
  if (t.highest_feature() >= width)
    throw_input_error("a node compares feature " + std::to_string(t.highest_feature()) + " of rows of " +
                      std::to_string(width));
}

// A node: feature and mode, threshold, first and second child.
std::vector<std::byte> pack_nodes(const TreeTables& t) {
  std::vector<uint32_t> words(static_cast<size_t>(4 * t.node_count()));
  for (size_t i = 0; i < t.features.size(); ++i) {
    words[4 * i] = static_cast<uint32_t>(t.features[i] << 4 | t.modes[i]);
    const auto threshold = static_cast<float>(t.thresholds[i]);
    static_assert(sizeof threshold == 4);
    words[4 * i + 1] = std::bit_cast<uint32_t>(threshold);
    for (size_t c = 0; c < 2; ++c) words[4 * i + 2 + c] = static_cast<uint32_t>(t.children[2 * i + c]);
  }
  return bytes_of(words);
}

LayerSource generate_trees(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<T>(query.layer().op);
  const Shape& x = input_shape(query, 0);
  const int64_t trees = input_shape(query, T::kRoots)[0].value(),
                nodes = input_shape(query, T::kFeatures)[0].value();
  const int64_t leaves = input_shape(query, T::kLeafBegins)[0].value(),
                weights = input_shape(query, T::kLeafTargets)[0].value();
  const int64_t parts = std::clamp<int64_t>(kTreeThreads / op.targets, 1, 64),
                sums_at = (trees * 4 + 15) / 16 * 16;
  KernelBuilder b = start_kernel(query, tactic, "trees", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().grid[0] = x[0];
  b.kernel().threads = kTreeThreads;
  b.kernel().shared_bytes = static_cast<int>(sums_at + parts * op.targets * 12);
  const auto number = [](std::string_view name, int64_t value) {
    return std::string(name) + " = " + std::to_string(value);
  };
  b.global("constexpr int " + number("THREADS", kTreeThreads) + ", " + number("TREES", trees) + ", " +
           number("TARGETS", op.targets) + ", " + number("PARTS", parts) + ", " + number("SUMS_AT", sums_at) +
           ", " + number("FEATURES", x[1].value()) + ", " +
           number("AGGREGATE", static_cast<int64_t>(op.aggregate)) + ";");
  const bool reals = tactic.inputs[0].dtype == DType::Float64;
  const std::string real = reals ? "double" : "float";
  b.global("typedef " + real + " Real;");
  b.global(device_text::trees::kCompare);
  b.line("#define FROM " + b.input(0, tactic.inputs[0].dtype) + "\n#define NODES " +
         b.packed("nodes", "uint4") + "\n#define ROOTS " + b.packed("roots", "int") + "\n#define BEGINS " +
         b.packed("begins", "int") + "\n#define LEAF_TARGETS " + b.packed("targets", "int") +
         "\n#define WEIGHTS " + b.packed("weights", real) + "\n#define THRESHOLD " +
         (reals ? b.packed("thresholds", "double") + "[at]" : "__uint_as_float(node[1])"));
  b.line(device_text::trees::kBody);
  LayerSource source{{b.finish()}};
  const auto block = [&](std::string_view name, int64_t bytes,
                         std::vector<std::byte> (*make)(const TreeTables&)) {
    source.blocks[std::string(name)] = {bytes, [op, tables = tables_of(query), width = x[1].value(), make] {
                                          const TreeTables t = read_tree_tables(op, tables);
                                          check_features(t, width);
                                          return make(t);
                                        }};
  };
  block("nodes", nodes * 16, pack_nodes);
  block("roots", trees * 4, [](const TreeTables& t) { return ints_of(t.roots); });
  block("begins", leaves * 4, [](const TreeTables& t) { return ints_of(t.leaf_begins); });
  block("targets", weights * 4, [](const TreeTables& t) { return ints_of(t.leaf_targets); });
  if (reals) {
    block("thresholds", nodes * 8, [](const TreeTables& t) { return doubles_of(t.thresholds); });
    block("weights", weights * 8, [](const TreeTables& t) { return doubles_of(t.leaf_weights); });
  } else {
    block("weights", weights * 4, [](const TreeTables& t) { return floats_of(t.leaf_weights); });
  }
  return source;
}

}  // namespace

GeneratedFamily trees_family() {
  return {kTreesRunner, list_trees, generate_trees, packs_alike};
}

}  // namespace lathe::cuda
