// SPDX-License-Identifier: Apache-2.0
//
// TfIdfVectorizer: how often each n-gram of a pool stands in a row of integers, where the items of an n-gram
// may be apart by up to max_skip items, all by the same distance.
#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"

namespace lathe {
namespace {

// The number of n-grams of `length` items, and where the first one begins in the pool.
struct Section {
  int64_t begin, count;
};

Section section_of(const TfIdfVectorizer& op, int64_t length) {
  const auto at = static_cast<size_t>(length - 1);
  const auto pool = static_cast<int64_t>(op.pool.size());
  const int64_t begin = op.ngram_counts[at],
                end = at + 1 < op.ngram_counts.size() ? op.ngram_counts[at + 1] : pool;
  if (begin < 0 || end < begin || end > pool || (end - begin) % length != 0)
    throw_input_error("items " + std::to_string(begin) + " to " + std::to_string(end) + " of a pool of " +
                      std::to_string(pool) + " are no n-grams of " + std::to_string(length) + " items");
  return {begin, (end - begin) / length};
}

void check_lists(const TfIdfVectorizer& op) {
  const auto lengths = static_cast<int64_t>(op.ngram_counts.size());
  if (op.min_gram < 1 || op.max_gram < op.min_gram || op.max_gram > lengths || op.max_skip < 0)
    throw_input_error("n-grams of " + std::to_string(op.min_gram) + " to " + std::to_string(op.max_gram) +
                      " items with up to " + std::to_string(op.max_skip) +
                      " skipped are asked for, the pool has 1 to " + std::to_string(lengths));
  int64_t grams = 0;
  for (int64_t length = 1; length <= lengths; ++length) grams += section_of(op, length).count;
  if (static_cast<int64_t>(op.ngram_indexes.size()) != grams || grams == 0)
    throw_input_error("the pool has " + std::to_string(grams) + " n-grams, ngram_indexes " +
                      std::to_string(op.ngram_indexes.size()) + " entries");
  if (*std::min_element(op.ngram_indexes.begin(), op.ngram_indexes.end()) < 0)
    throw_input_error("an entry of ngram_indexes is negative");
}

int64_t column_count(const TfIdfVectorizer& op) {
  return *std::max_element(op.ngram_indexes.begin(), op.ngram_indexes.end()) + 1;
}

std::vector<ResultInfo> infer_tfidf(const TfIdfVectorizer& op, const InferContext& context) {
  const Value& x = context.input(0);
  if (x.dtype != DType::Int32 && x.dtype != DType::Int64)
    throw_input_error("x is " + std::string(dtype_name(x.dtype)) + ", expected int32 or int64");
  if (x.shape.empty() || x.shape.size() > 2)
    throw_input_error("x must have one or two dims, its shape is " + to_string(x.shape));
  check_lists(op);
  const int64_t columns = column_count(op);
  if (columns > (int64_t{1} << 31))
    throw_input_error("the largest entry of ngram_indexes is " + std::to_string(columns - 1));
  if (!op.weights.empty() && static_cast<int64_t>(op.weights.size()) < columns)
    throw_input_error("there are " + std::to_string(op.weights.size()) + " weights for " +
                      std::to_string(columns) + " columns");
  Shape shape = x.shape;
  shape.back() = columns;
  return {{DType::Float32, shape}};
}

// n-gram -> column
using Grams = std::map<Ints, int64_t>;

Grams read_grams(const TfIdfVectorizer& op) {
  Grams grams;
  size_t number = 0;
  for (int64_t length = 1; length <= static_cast<int64_t>(op.ngram_counts.size()); ++length) {
    const Section section = section_of(op, length);
    for (int64_t i = 0; i < section.count; ++i, ++number) {
      const auto begin = op.pool.begin() + section.begin + i * length;
      if (length >= op.min_gram && length <= op.max_gram)
        grams[Ints(begin, begin + length)] = op.ngram_indexes[number];
    }
  }
  return grams;
}

void count_row(const TfIdfVectorizer& op, const Grams& grams, const int64_t* row, int64_t items,
               float* counts) {
  for (int64_t distance = 1; distance <= std::min(op.max_skip + 1, std::max<int64_t>(items, 1)); ++distance) {
    // Single items have no distance: they count once.
    for (int64_t length = distance == 1 ? op.min_gram : std::max<int64_t>(op.min_gram, 2);
         length <= op.max_gram; ++length) {
      for (int64_t start = 0; start + (length - 1) * distance < items; ++start) {
        Ints gram;
        for (int64_t i = 0; i < length; ++i) gram.push_back(row[start + i * distance]);
        if (const auto found = grams.find(gram); found != grams.end()) ++counts[found->second];
      }
    }
  }
}

void weigh(const TfIdfVectorizer& op, float* counts, int64_t columns) {
  for (int64_t i = 0; i < columns; ++i) {
    const float weight = op.weights.empty() ? 1 : op.weights[static_cast<size_t>(i)];
    if (op.mode == TfIdfMode::IDF) counts[i] = counts[i] > 0 ? weight : 0;
    if (op.mode == TfIdfMode::TFIDF) counts[i] *= weight;
  }
}

std::vector<Tensor> evaluate_tfidf(const TfIdfVectorizer& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_tfidf);
  const Grams grams = read_grams(op);
  const std::vector<int64_t> x = context.input(0).to_int64s();
  const int64_t items = context.input(0).extents().back(), columns = results[0].extents().back();
  float* out = results[0].mutable_data<float>().data();
  context.parallel_for(results[0].size() / columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      count_row(op, grams, x.data() + row * items, items, out + row * columns);
      weigh(op, out + row * columns, columns);
    }
  });
  return results;
}

}  // namespace

std::vector<OpDef> tfidf_ops() {
  return {op_def<TfIdfVectorizer, infer_tfidf, evaluate_tfidf>()};
}

}  // namespace lathe
