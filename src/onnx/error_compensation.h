// SPDX-License-Identifier: Apache-2.0
//
// Rounding weights of a product one after the other, where each takes up the errors of those before it (GPTQ: Frantar and
// others, 2022). What matters is the product, not the weights: where two inputs go together, the error of one's weight can be
// taken back by the other's. `sums` says which go together.
//
// Example: inputs that are always equal, weights 0.4 and 0.4, integers only. Rounded alone: 0 and 0, and 0.8 of each input is
// lost. In turn: 0, whose error of 0.4 goes to the second, which becomes 0.8 and is rounded to 1.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace lathe::onnx {

// Of the rows that a product read: sums[i * k + j] is the sum of x[i] * x[j].
struct InputSums {
  int64_t k = 0;
  std::vector<float> sums;
  void add(std::span<const float> rows, ThreadPool& pool);
};
using InputSumsByTensor = std::map<std::string, InputSums, std::less<>>;

// What an error of weight i does best to the later ones: w[j] -= error * row(i)[j] for j > i, where the error of w[i] was divided
// by row(i)[i]. An upper triangle U with inverse(sums) = transpose(U) * U.
class ErrorSpread {
 public:
  ErrorSpread(const InputSums& inputs, ThreadPool& pool);
  std::span<const float> row(int64_t i) const { return {rows_.data() + i * k_, static_cast<size_t>(k_)}; }

 private:
  int64_t k_;
  std::vector<float> rows_;
};

}  // namespace lathe::onnx
