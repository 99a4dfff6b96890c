// SPDX-License-Identifier: Apache-2.0
//
// TfIdfVectorizer: the n-grams of the pool are a tree (backend/gram_tree.h). From each item of a row one walk
// counts the n-grams of all lengths that begin there, and ends at the first item that continues none. Threads
// share the rows.
//
// Operations: one look-up per item and distance where no n-gram begins, max_gram at most; bytes: the items
// once, the table (24 bytes an edge, half full at most) in L1 or L2.
#include <algorithm>

#include "backend/cpu/vector/own_tactic.h"
#include "backend/gram_tree.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kTfidfRunner = "TfIdf";

// Counts the n-grams of `longest` items at most, and of two at least if `skips`, that begin at `row` and go
// on `distance` items further.
template <class T>
void count_grams(const GramTree& grams, const T* row, int64_t distance, int64_t longest, bool skips,
                 float* counts) {
  int32_t node = 0;
  for (int64_t i = 0; i < longest; ++i) {
    const GramTree::Edge* edge = grams.find(node, static_cast<int64_t>(row[i * distance]));
    if (edge == nullptr) return;
    node = edge->to;
    const int64_t column = grams.columns()[static_cast<size_t>(node)];
    if (column >= 0 && !(skips && i == 0)) ++counts[column];
  }
}

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
        count_grams(*grams, row + start, distance, std::min(op->max_gram, (items - start - 1) / distance + 1),
                    distance > 1, counts);
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

std::vector<Tactic> list_tfidf(const LayerQuery& query, const Machine&) {
  if (!std::holds_alternative<TfIdfVectorizer>(query.layer().op)) return {};
  Tactic t = linear_tactic(query, kTfidfRunner, "tfidf_tree");
  if (!query.layer().epilogue.empty())
    t.support = Support::no("counts take no epilogue");
  else if (std::get<TfIdfVectorizer>(query.layer().op).pool.size() > (size_t{1} << 30))
    t.support = Support::no("the pool has more than 2^30 items");
  return {t};
}

std::unique_ptr<LayerKernel> make_tfidf(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                        const PackContext&) {
  return std::make_unique<TfIdfKernel>(query, tactic);
}

}  // namespace

TacticFamily tfidf_tactics() {
  return {kTfidfRunner, list_tfidf, make_tfidf};
}

}  // namespace lathe::cpu
