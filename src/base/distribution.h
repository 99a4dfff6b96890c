// SPDX-License-Identifier: Apache-2.0
//
// Statistics of a stream of values in bounded memory. Up to `exact_values` values are kept as they are, and
// every figure is exact. More values go into buckets that are narrow beside their value (2,048 to a factor of
// two): count, minimum, maximum, mean and deviation stay exact, and a value of the order (median,
// percentiles) is off by at most 0.025 %.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lathe {

class Distribution {
 public:
  explicit Distribution(size_t exact_values = 1 << 17) : exact_values_(exact_values) {}

  // Not negative: negative values count as 0 in the order.
  void add(double value);
  void add(const Distribution& other);

  int64_t count() const { return count_; }
  // All are 0 without values.
  double min() const { return count_ == 0 ? 0 : min_; }
  double max() const { return count_ == 0 ? 0 : max_; }
  double mean() const { return mean_; }
  double sum() const { return mean_ * static_cast<double>(count_); }
  double standard_deviation() const;  // of all values, not of a sample
  double median() const;              // the mean of the two in the middle when there are two
  // The value at `rank` of the ascending order, from 0.
  double at_rank(int64_t rank) const;

 private:
  static constexpr int kStepBits = 11;  // buckets to a factor of two, as a power of two
  static constexpr int kFloatBits = 31, kMantissaBits = 23;

  void count_values(double value, int64_t times);
  void leave_exact();
  double bucket_value(size_t octave, size_t step) const;

  size_t exact_values_;
  int64_t count_ = 0;
  double min_ = std::numeric_limits<double>::infinity(), max_ = -min_;
  double mean_ = 0, squares_ = 0;  // sum of squared distances from the mean (Welford)
  std::vector<float> exact_;       // in the order of arrival
  bool is_exact_ = true;
  std::vector<std::vector<int64_t>> octaves_;  // counts, by the exponent of the value; empty: no value there
};

}  // namespace lathe
