// SPDX-License-Identifier: Apache-2.0
//
// TfIdfVectorizer: a thread for each item of a row and each distance walks through the tree of the pool's
// n-grams (backend/gram_tree.h) and counts those that it comes by, with integer atomics: the same counts in
// every run. The table of edges (16 bytes each) is read from the L2.
#include <cstring>

#include "backend/cuda/codegen/counting.h"
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/gram_tree.h"
#include "lathe_device_text/tfidf.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kTfidfRunner = "TfIdf";
constexpr size_t kMostPoolItems = size_t{1} << 26;

std::vector<Tactic> list_tfidf(const LayerQuery& query, const Device&) {
  const auto* op = std::get_if<TfIdfVectorizer>(&query.layer().op);
  if (op == nullptr) return {};
  const DType type = query.graph.value(query.layer().inputs[0]).dtype;
  Tactic t = typed_tactic(query, kTfidfRunner, "cuda_tfidf", {type, kLinear}, {DType::Float32, kLinear});
  if (op->pool.size() > kMostPoolItems) t.support = Support::no("the pool has more than 2^26 items");
  return {t};
}

std::vector<std::byte> edges_block(const TfIdfVectorizer& op) {
  const GramTree tree(op);
  std::vector<std::byte> bytes(tree.edges().size() * 16);
  for (size_t i = 0; i < tree.edges().size(); ++i) {
    const GramTree::Edge& edge = tree.edges()[i];
    std::memcpy(bytes.data() + i * 16, &edge.item, 8);
    std::memcpy(bytes.data() + i * 16 + 8, &edge.from, 4);
    std::memcpy(bytes.data() + i * 16 + 12, &edge.to, 4);
  }
  return bytes;
}

// The tree has at most as many nodes as the pool has items, and the root.
int64_t columns_bytes(const TfIdfVectorizer& op) {
  return static_cast<int64_t>(op.pool.size() + 1) * 4;
}
std::vector<std::byte> columns_block(const TfIdfVectorizer& op) {
  const GramTree tree(op);
  std::vector<std::byte> bytes(static_cast<size_t>(columns_bytes(op)));
  for (size_t i = 0; i < tree.columns().size(); ++i) {
    const auto column = static_cast<int32_t>(tree.columns()[i]);
    std::memcpy(bytes.data() + i * 4, &column, 4);
  }
  return bytes;
}

std::vector<std::byte> weights_block(const TfIdfVectorizer& op) {
  const auto* from = reinterpret_cast<const std::byte*>(op.weights.data());
  return {from, from + op.weights.size() * 4};
}

LayerSource generate_tfidf(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<TfIdfVectorizer>(query.layer().op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const Dim items = x.back(), rows = product(x, 0, x.size() - 1), columns = y.back();
  // What lies further apart than the row is long is no n-gram.
  const Dim distances = min(Dim(op.max_skip), max(items, Dim(1)) - Dim(1)) + Dim(1);
  const auto start = [&](const std::string& entry, const Dim& threads) {
    KernelBuilder b = start_kernel(query, tactic, entry, DType::Float32);
    add_counting(b);
    b.kernel().grid[0] = ceil_div(threads, Dim(256));
    b.line("const idx ROWS = " + b.number(rows) + ", ITEMS = " + b.number(items) +
           ", COLUMNS = " + b.number(columns) + ", DISTANCES = " + b.number(distances) +
           ";\n#define COUNTS " + b.scratch(0, "u32"));
    return b;
  };
  KernelBuilder clear = start("tfidf_clear", rows * columns),
                walk = start("tfidf_walk", rows * distances * items),
                weigh = start("tfidf_weigh", rows * columns);
  clear.line(device_text::tfidf::kClear);
  walk.line("#define FROM " + walk.input(0, tactic.inputs[0].dtype) + "\n#define EDGES " +
            walk.packed("edges", "uint4") + "\n#define NODE_COLUMNS " + walk.packed("columns", "int") +
            "\nconstexpr u64 PLACES = " + std::to_string(GramTree::place_count(op)) +
            "ull, FROM_FACTOR = " + std::to_string(GramTree::kFromFactor) +
            "ull, HASH_FACTOR = " + std::to_string(GramTree::kHashFactor) +
            "ull;\nconst idx MAX_GRAM = " + std::to_string(op.max_gram) + ";");
  walk.line(device_text::tfidf::kWalk);
  Tail(query, tactic).emit(weigh, 1);
  weigh.constants({{"MODE", static_cast<int64_t>(op.mode)}});
  weigh.line("#define WEIGHT(i) " +
             (op.weights.empty() ? std::string("1.f") : weigh.packed("weights", "float") + "[i]"));
  weigh.line(device_text::tfidf::kWeigh);
  LayerSource source{{clear.finish(), walk.finish(), weigh.finish()}, aligned_bytes(rows * columns * Dim(4))};
  source.numbered = max(rows * columns, rows * distances * items);
  source.blocks["edges"] = {GramTree::place_count(op) * 16, [op] { return edges_block(op); }};
  source.blocks["columns"] = {columns_bytes(op), [op] { return columns_block(op); }};
  if (!op.weights.empty())
    source.blocks["weights"] = {static_cast<int64_t>(op.weights.size()) * 4,
                                [op] { return weights_block(op); }};
  return source;
}

}  // namespace

GeneratedFamily tfidf_family() {
  return {kTfidfRunner, list_tfidf, generate_tfidf, packs_alike};
}

}  // namespace lathe::cuda
