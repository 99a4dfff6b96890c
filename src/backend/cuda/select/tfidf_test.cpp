// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily tfidf_family();
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

TEST(CudaTfIdf, ModesLengthsAndDistances) {
  std::vector<LayerCase> cases;
  for (const TfIdfMode mode : {TfIdfMode::TF, TfIdfMode::IDF, TfIdfMode::TFIDF})
    for (const int64_t shortest : {1, 2})
      for (const int64_t skip : {0, 5, 1000})
        for (const Extents& shape : {Extents{12}, Extents{9, 40}}) {
          const DType type = skip > 0 ? DType::Int64 : DType::Int32;
          cases.push_back({.op = grams(mode, shortest, 3, skip),
                           .inputs = {{.dtype = type, .extents = shape, .low = 2, .high = 6.9}},
                           .dynamic_batch = true});
        }
  cases.push_back({.op = grams(TfIdfMode::TF, 1, 1, 0),
                   .inputs = {{.dtype = DType::Int64, .extents = {1, 1}, .low = 2, .high = 6}}});
  TfIdfVectorizer plain = grams(TfIdfMode::IDF, 1, 2, 1);
  plain.weights.clear();
  cases.push_back(
      {.op = plain, .inputs = {{.dtype = DType::Int64, .extents = {5, 30}, .low = -3, .high = 6}}});
  EXPECT_EQ(check_generated(tfidf_family(), cases), static_cast<int>(cases.size()));
}

}  // namespace
}  // namespace lathe::cuda
