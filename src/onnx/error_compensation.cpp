// SPDX-License-Identifier: Apache-2.0
//
// H = sums + a little of their mean on the diagonal, so that it has an inverse. With R upper and H = R *
// transpose(R), from the last row to the first, U is inverse(R).
#include "onnx/error_compensation.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace lathe::onnx {
namespace {

constexpr double kDamping = 0.01;
constexpr int kRounds = 8;        // through all weights of a column
constexpr int64_t kColumns = 64;  // that a thread takes at a time

double dot(const double* a, const double* b, int64_t count) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (int64_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// to -= factor * from. Pieces of a known length are what compilers vectorise.
template <class T>
void subtract(T* to, T factor, const T* from, int64_t count) {
  constexpr int64_t kLanes = 16;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) to[i + lane] -= factor * from[i + lane];
  for (; i < count; ++i) to[i] -= factor * from[i];
}

// In place: of the upper triangle of H.
void factorize(std::vector<double>& h, int64_t k, ThreadPool& pool) {
  for (int64_t j = k - 1; j >= 0; --j) {
    double* row = h.data() + j * k;
    const int64_t behind = k - 1 - j;
    row[j] = std::sqrt(std::max(row[j] - dot(row + j + 1, row + j + 1, behind), 1e-30));
    pool.parallel_for(j, kColumns, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double* other = h.data() + i * k;
        other[j] = (other[j] - dot(other + j + 1, row + j + 1, behind)) / row[j];
      }
    });
  }
}

// Of the upper triangle R; columns do not need each other.
std::vector<double> inverse(const std::vector<double>& r, int64_t k, ThreadPool& pool) {
  std::vector<double> u(r.size(), 0);
  pool.parallel_for(k, kColumns, [&](int64_t begin, int64_t end) {
    for (int64_t i = end - 1; i >= 0; --i) {
      double* row = u.data() + i * k;
      const double* from = r.data() + i * k;
      if (i >= begin) row[i] = 1;
      for (int64_t m = i + 1; m < end; ++m) {
        const int64_t first = std::max(begin, m);
        subtract(row + first, from[m], u.data() + m * k + first, end - first);
      }
      for (int64_t j = std::max(begin, i); j < end; ++j) row[j] /= from[i];
    }
  });
  return u;
}

double mean_square(const InputSums& inputs) {
  double mean = 0;
  for (int64_t i = 0; i < inputs.k; ++i)
    mean += static_cast<double>(inputs.sum(i, i)) / static_cast<double>(inputs.k);
  return mean;
}

// sums * errors, of one piece.
std::vector<float> gradient(const InputSums& inputs, std::span<const float> errors, int64_t first) {
  const int64_t size = std::min(kPiece, inputs.k - first);
  std::vector<float> result(static_cast<size_t>(size), 0);
  for (int64_t i = 0; i < size; ++i)
    if (const float e = errors[static_cast<size_t>(first + i)]; e != 0)
      subtract(result.data(), -e, inputs.sums.data() + (first + i) * inputs.width(), size);
  return result;
}

void settle_piece(const InputSums& inputs, std::span<const float> weights, int64_t first, float damping,
                  float low, float high, RoundedColumn& column) {
  const int64_t size = std::min(kPiece, inputs.k - first);
  std::vector<float> errors(weights.size(), 0);
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(first + size); ++i)
    errors[i] = weights[i] - column.integers[i] * column.scales[i];
  std::vector<float> slopes = gradient(inputs, errors, first);
  bool changes = true;
  for (int round = 0; round < kRounds && changes; ++round) {
    changes = false;
    for (int64_t i = 0; i < size; ++i) {
      const auto at = static_cast<size_t>(first + i);
      const float scale = column.scales[at], square = inputs.sum(first + i, first + i) + damping,
                  slope = slopes[static_cast<size_t>(i)] + damping * errors[at];
      const float wanted =
          std::nearbyint(std::clamp(column.integers[at] + slope / square / scale, low, high));
      const float change = (wanted - column.integers[at]) * scale;
      // What the error loses; a little more than rounding, so that no two integers take turns.
      if (!(change * (2 * slope - change * square) > 1e-6f * change * change * square)) continue;
      column.integers[at] = wanted;
      errors[at] -= change;
      subtract(slopes.data(), change, inputs.sums.data() + (first + i) * inputs.width(), size);
      changes = true;
    }
  }
}

}  // namespace

void InputSums::add(std::span<const float> rows, ThreadPool& pool) {
  sums.resize(static_cast<size_t>(k * width()), 0);
  check(k > 0 && static_cast<int64_t>(rows.size()) % k == 0, "rows of another length");
  pool.parallel_for(k, kColumns / 4, [&](int64_t begin, int64_t end) {
    for (const float* x = rows.data(); x != rows.data() + rows.size(); x += k)
      for (int64_t i = begin; i < end; ++i)
        if (x[i] != 0)
          subtract(sums.data() + i * width(), -x[i], x + piece_of(i), std::min(kPiece, k - piece_of(i)));
  });
}

void pass_error_on(std::span<float> weights, float error, std::span<const float> row) {
  subtract(weights.data() + 1, error / row[0], row.data() + 1, static_cast<int64_t>(row.size()) - 1);
}

double output_error(const InputSums& inputs, std::span<const float> errors) {
  double sum = 0;
  for (int64_t first = 0; first < inputs.k; first += kPiece) {
    const std::vector<float> slopes = gradient(inputs, errors, first);
    for (size_t i = 0; i < slopes.size(); ++i)
      sum += static_cast<double>(slopes[i]) * static_cast<double>(errors[static_cast<size_t>(first) + i]);
  }
  return sum;
}

void settle(const InputSums& inputs, std::span<const float> weights, float low, float high,
            RoundedColumn& column) {
  const auto damping = static_cast<float>(kDamping * mean_square(inputs));
  if (!(damping > 0)) return;  // inputs of zeros
  for (int64_t first = 0; first < inputs.k; first += kPiece)
    settle_piece(inputs, weights, first, damping, low, high, column);
}

ErrorSpread::ErrorSpread(const InputSums& inputs, ThreadPool& pool)
    : inputs_(&inputs), k_(inputs.k), width_(inputs.width()), rows_(static_cast<size_t>(k_ * width_), 0) {
  const double mean = mean_square(inputs);
  const double damping = mean > 0 ? kDamping * mean : 1;
  for (int64_t first = 0; first < k_; first += kPiece) {
    const int64_t size = std::min(kPiece, k_ - first);
    std::vector<double> h(static_cast<size_t>(size * size));
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        h[static_cast<size_t>(i * size + j)] =
            static_cast<double>(inputs.sum(first + i, first + j)) + (i == j ? damping : 0);
    factorize(h, size, pool);
    const std::vector<double> u = inverse(h, size, pool);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = i; j < size; ++j)
        rows_[static_cast<size_t>((first + i) * width_ + j)] =
            static_cast<float>(u[static_cast<size_t>(i * size + j)]);
  }
}

}  // namespace lathe::onnx
