// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily tfidf_tactics();
namespace {

// Single items 2, 3, 5; pairs (5, 4), (5, 6), (2, 2); a triple (2, 3, 2), and a pair twice, whose last column
// counts.
TfIdfVectorizer grams(TfIdfMode mode, int64_t min_gram, int64_t max_gram, int64_t max_skip) {
  TfIdfVectorizer op{.mode = mode, .min_gram = min_gram, .max_gram = max_gram, .max_skip = max_skip};
  op.ngram_counts = {0, 3, 11};
  op.pool = {2, 3, 5, 5, 4, 5, 6, 2, 2, 5, 4, 2, 3, 2};
  op.ngram_indexes = {0, 7, 1, 2, 3, 4, 5, 6};
  op.weights = {1, 2, 0.5f, 3, 1, 0.25f, 2, 4};
  return op;
}

TEST(TfIdfTactics, ModesLengthsAndDistances) {
  for (const DType type : {DType::Int32, DType::Int64})
    for (const TfIdfMode mode : {TfIdfMode::TF, TfIdfMode::IDF, TfIdfMode::TFIDF})
      for (const int64_t shortest : {1, 2, 3})
        for (int64_t longest = shortest; longest <= 3; ++longest)
          for (const int64_t skip : {0, 1, 5, 1000})
            for (const Extents& shape : {Extents{12}, Extents{1, 1}, Extents{9, 40}, Extents{3, 2}}) {
              SCOPED_TRACE(to_string(shape) + " skips " + std::to_string(skip));
              const CheckedInput x{.dtype = type, .extents = shape, .low = 2, .high = 6.9};
              EXPECT_GE(
                  check_layer(tfidf_tactics(), {.op = grams(mode, shortest, longest, skip), .inputs = {x}}),
                  1);
            }
}

TEST(TfIdfTactics, WithoutWeights) {
  TfIdfVectorizer op = grams(TfIdfMode::IDF, 1, 2, 1);
  op.weights.clear();
  const CheckedInput x{.dtype = DType::Int64, .extents = {5, 30}, .low = -3, .high = 6.9};
  EXPECT_GE(check_layer(tfidf_tactics(), {.op = op, .inputs = {x}}), 1);
}

}  // namespace
}  // namespace lathe::cpu
