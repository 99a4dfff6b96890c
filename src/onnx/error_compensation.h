// SPDX-License-Identifier: Apache-2.0
//
// Rounding weights of a product by what it reads: one after the other, where each takes up the errors of
// those before it (GPTQ: Frantar and others, 2022), and then once more, where each takes the integer that is
// best beside all others, as AdaRound (Nagel and others, 2020) learns them, by descent along single weights.
// What matters is the product, not the weights: where two inputs go together, the error of one's weight can
// be taken back by the other's. `sums` says which go together.
//
// Example: inputs that are always equal, weights 0.4 and 0.4, integers only. Rounded alone: 0 and 0, and 0.8
// of each input is lost. In turn: 0, whose error of 0.4 goes to the second, which becomes 0.8 and is rounded
// to 1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace lathe::onnx {

// Weights that take up each other's errors: all of them up to this number, else those of one piece of so
// many. The work of a column grows with its square.
inline constexpr int64_t kPiece = 1024;

// Of the rows that a product read: the sum of x[i] * x[j] for i and j of one piece.
struct InputSums {
  int64_t k = 0;
  std::vector<float> sums;  // k rows of width() elements
  int64_t width() const { return std::min(k, kPiece); }
  int64_t piece_of(int64_t i) const { return i / kPiece * kPiece; }  // its first index
  float sum(int64_t i, int64_t j) const { return sums[static_cast<size_t>(i * width() + j - piece_of(i))]; }
  void add(std::span<const float> rows, ThreadPool& pool);
};
using InputSumsByTensor = std::map<std::string, InputSums, std::less<>>;

// What an error of weight i does best to the later ones: w[i + n] -= error * row(i)[n] for n > 0, where the
// error of w[i] was divided by row(i)[0]. In each piece an upper triangle U with inverse(sums) = transpose(U)
// * U.
class ErrorSpread {
 public:
  // `inputs` stay the caller's.
  ErrorSpread(const InputSums& inputs, ThreadPool& pool);
  const InputSums& inputs() const { return *inputs_; }
  // Up to the end of its piece.
  std::span<const float> row(int64_t i) const {
    const int64_t first = i / kPiece * kPiece, last = std::min(k_, first + kPiece);
    return {rows_.data() + i * width_ + (i - first), static_cast<size_t>(last - i)};
  }

 private:
  const InputSums* inputs_;
  int64_t k_, width_;
  std::vector<float> rows_;
};

// `weights`: from the one that was rounded, which lost `error`, to those behind it; `row`: its row of the
// spread.
void pass_error_on(std::span<float> weights, float error, std::span<const float> row);

// The squared error of a column of the product over all rows, where its weights are off by `errors`; pieces
// as if they did not go together.
double output_error(const InputSums& inputs, std::span<const float> errors);

// Weights of a column as integers, with the scale of each.
struct RoundedColumn {
  std::vector<float> integers, scales;
};
// In turn, each weight takes the integer from `low` to `high` that lowers the error of the output most, until
// none does, or for a few rounds. `weights` are those that `column` stands for.
void settle(const InputSums& inputs, std::span<const float> weights, float low, float high,
            RoundedColumn& column);

}  // namespace lathe::onnx
