// SPDX-License-Identifier: Apache-2.0
//
// TfIdfVectorizer: the n-grams of the pool are a tree, whose edges are items and whose nodes say which column
// the n-gram that ends there has. From each item of a row one walk counts the n-grams of all lengths that
// begin there, and ends at the first item that continues none. Threads share the rows.
//
// The edges of all nodes are in one hash table. Operations: one look-up per item and distance where no n-gram
// begins, max_gram at most; bytes: the items once, the table (24 bytes an edge, half full at most) in L1 or
// L2.
#include <algorithm>
#include <bit>

#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kRunner = "TfIdf";

class GramTree {
 public:
  // The operator's rule has checked the lists.
  explicit GramTree(const TfIdfVectorizer& op) : min_(op.min_gram), max_(op.max_gram) {
    edges_.resize(std::bit_ceil(2 * op.pool.size() + 2));
    size_t number = 0;
    const auto lengths = static_cast<int64_t>(op.ngram_counts.size());
    for (int64_t length = 1; length <= lengths; ++length) {
      const auto at = static_cast<size_t>(length - 1);
      const int64_t begin = op.ngram_counts[at],
                    end = length < lengths ? op.ngram_counts[at + 1] : static_cast<int64_t>(op.pool.size());
      for (int64_t gram = begin; gram < end; gram += length, ++number)
        if (length >= min_ && length <= max_) add(op.pool.data() + gram, length, op.ngram_indexes[number]);
    }
  }

  // Counts the n-grams of `longest` items at most, and of two at least if `skips`, that begin at `row` and go
  // on `distance` items further.
  template <class T>
  void count(const T* row, int64_t distance, int64_t longest, bool skips, float* counts) const {
    int32_t node = 0;
    for (int64_t i = 0; i < std::min(longest, max_); ++i) {
      const Edge* edge = find(node, static_cast<int64_t>(row[i * distance]));
      if (edge == nullptr) return;
      node = edge->to;
      const int64_t column = columns_[static_cast<size_t>(node)];
      if (column >= 0 && !(skips && i == 0)) ++counts[column];
    }
  }

 private:
  struct Edge {
    int64_t item = 0;
    int32_t from = 0, to = 0;  // to: 0 when the place is free, since no edge leads to the root
  };

  size_t place_of(int32_t from, int64_t item) const {
    const uint64_t mixed = (static_cast<uint64_t>(item) + static_cast<uint64_t>(from) * 0x9E3779B97F4A7C15u) *
                           0xD6E8FEB86659FD93u;
    return static_cast<size_t>(mixed >> 32) & (edges_.size() - 1);
  }
  const Edge* find(int32_t from, int64_t item) const {
    for (size_t at = place_of(from, item); edges_[at].to != 0; at = (at + 1) & (edges_.size() - 1))
      if (edges_[at].from == from && edges_[at].item == item) return &edges_[at];
    return nullptr;
  }
  void add(const int64_t* items, int64_t length, int64_t column) {
    int32_t node = 0;
    for (int64_t i = 0; i < length; ++i) {
      if (const Edge* edge = find(node, items[i])) {
        node = edge->to;
        continue;
      }
      size_t at = place_of(node, items[i]);
      while (edges_[at].to != 0) at = (at + 1) & (edges_.size() - 1);
      edges_[at] = {items[i], node, static_cast<int32_t>(columns_.size())};
      node = edges_[at].to;
      columns_.push_back(-1);
    }
    columns_[static_cast<size_t>(node)] = column;
  }

  int64_t min_, max_;  // lengths of n-grams that count
  std::vector<Edge> edges_;
  std::vector<int64_t> columns_ = {-1};  // of each node; -1: no n-gram ends there
};

class PreparedTfIdf final : public PreparedLayer {
 public:
  const TfIdfVectorizer* op = nullptr;
  const GramTree* grams = nullptr;
  bool is_narrow = false;  // int32 instead of int64
  int64_t rows = 0, items = 0, columns = 0;

  int members(int available) const override {
    const double walks = static_cast<double>(items) * static_cast<double>(std::min(op->max_skip, items) + 1);
    return members_for(static_cast<double>(rows) * (4 * walks + 0.2 * static_cast<double>(columns)),
                       available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range part = worker.slice(rows);
    for (int64_t row = part.begin; row < part.end; ++row) {
      float* counts = static_cast<float*>(args.outputs[0]) + row * columns;
      std::fill_n(counts, columns, 0.0f);
      if (is_narrow)
        count_row(static_cast<const int32_t*>(args.inputs[0]) + row * items, counts);
      else
        count_row(static_cast<const int64_t*>(args.inputs[0]) + row * items, counts);
      weigh(counts);
    }
  }

 private:
  template <class T>
  void count_row(const T* row, float* counts) const {
    const int64_t distances = std::min(op->max_skip, std::max<int64_t>(items, 1) - 1) + 1;
    for (int64_t distance = 1; distance <= distances; ++distance)
      for (int64_t start = 0; start < items; ++start)
        grams->count(row + start, distance, (items - start - 1) / distance + 1, distance > 1, counts);
  }
  void weigh(float* counts) const {
    if (op->mode == TfIdfMode::TF) return;
    for (int64_t i = 0; i < columns; ++i) {
      const float weight = op->weights.empty() ? 1 : op->weights[static_cast<size_t>(i)];
      if (op->mode == TfIdfMode::IDF)
        counts[i] = counts[i] > 0 ? weight : 0;
      else
        counts[i] *= weight;
    }
  }
};

class TfIdfKernel final : public LayerKernel {
 public:
  TfIdfKernel(const LayerQuery& query, const Tactic& tactic)
      : op_(std::get<TfIdfVectorizer>(query.layer().op)),
        grams_(op_),
        is_narrow_(tactic.inputs[0].dtype == DType::Int32) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedTfIdf>();
    p->op = &op_;
    p->grams = &grams_;
    p->is_narrow = is_narrow_;
    p->items = context.inputs[0].back();
    p->columns = context.outputs[0].back();
    p->rows = element_count(context.outputs[0]) / p->columns;
    return p;
  }

 private:
  TfIdfVectorizer op_;
  GramTree grams_;
  bool is_narrow_;
};

std::vector<Tactic> list(const LayerQuery& query, const Machine&) {
  if (!std::holds_alternative<TfIdfVectorizer>(query.layer().op)) return {};
  Tactic t = linear_tactic(query, kRunner, "tfidf_tree");
  if (!query.layer().epilogue.empty())
    t.support = Support::no("counts take no epilogue");
  else if (std::get<TfIdfVectorizer>(query.layer().op).pool.size() > (size_t{1} << 30))
    t.support = Support::no("the pool has more than 2^30 items");
  return {t};
}

std::unique_ptr<LayerKernel> make(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                  const PackContext&) {
  return std::make_unique<TfIdfKernel>(query, tactic);
}

}  // namespace

TacticFamily tfidf_tactics() {
  return {kRunner, list, make};
}

}  // namespace lathe::cpu
