// SPDX-License-Identifier: Apache-2.0
//
// The bucket of a value is its float without the low bits of the mantissa: for positive floats the order of
// the bits is the order of the values, so that the buckets are sorted, and no logarithm is needed.
#include "base/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace lathe {

void Distribution::add(double value) {
  ++count_;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  const double distance = value - mean_;
  mean_ += distance / static_cast<double>(count_);
  squares_ += distance * (value - mean_);
  if (is_exact_ && exact_.size() < exact_values_) return exact_.push_back(static_cast<float>(value));
  leave_exact();
  count_values(value, 1);
}

void Distribution::add(const Distribution& other) {
  if (other.count_ == 0) return;
  const auto mine = static_cast<double>(count_), theirs = static_cast<double>(other.count_);
  const double distance = other.mean_ - mean_;
  mean_ += distance * theirs / (mine + theirs);
  squares_ += other.squares_ + distance * distance * mine * theirs / (mine + theirs);
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  if (is_exact_ && other.is_exact_ && exact_.size() + other.exact_.size() <= exact_values_) {
    exact_.insert(exact_.end(), other.exact_.begin(), other.exact_.end());
    return;
  }
  leave_exact();
  for (const float value : other.exact_) count_values(static_cast<double>(value), 1);
  for (size_t octave = 0; octave < other.octaves_.size(); ++octave) {
    for (size_t step = 0; step < other.octaves_[octave].size(); ++step)
      if (const int64_t times = other.octaves_[octave][step]; times > 0)
        count_values(other.bucket_value(octave, step), times);
  }
}

double Distribution::standard_deviation() const {
  return count_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(count_));
}

double Distribution::median() const {
  if (count_ == 0) return 0;
  const double upper = at_rank(count_ / 2);
  return count_ % 2 == 1 ? upper : (at_rank(count_ / 2 - 1) + upper) / 2;
}

double Distribution::at_rank(int64_t rank) const {
  check(rank >= 0 && rank < count_, "a rank is one of the values");
  if (rank == 0) return min_;
  if (rank == count_ - 1) return max_;
  if (is_exact_) {
    std::vector<float> values = exact_;
    std::nth_element(values.begin(), values.begin() + rank, values.end());
    return static_cast<double>(values[static_cast<size_t>(rank)]);
  }
  for (size_t octave = 0; octave < octaves_.size(); ++octave) {
    for (size_t step = 0; step < octaves_[octave].size(); ++step) {
      rank -= octaves_[octave][step];
      if (rank < 0) return bucket_value(octave, step);
    }
  }
  return max_;
}

void Distribution::count_values(double value, int64_t times) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(std::max(value, 0.0)));
  const size_t octave = bits >> kMantissaBits;
  const size_t step = (bits >> (kMantissaBits - kStepBits)) & ((1u << kStepBits) - 1);
  octaves_[octave].resize(size_t{1} << kStepBits);
  octaves_[octave][step] += times;
}

void Distribution::leave_exact() {
  if (!is_exact_) return;
  is_exact_ = false;
  octaves_.resize(size_t{1} << (kFloatBits - kMantissaBits));
  for (const float value : exact_) count_values(static_cast<double>(value), 1);
  exact_ = {};
}

// The middle of the bucket, but never outside of what was seen. The first bucket is zero itself.
double Distribution::bucket_value(size_t octave, size_t step) const {
  if (octave == 0 && step == 0) return std::max(min_, 0.0);
  const auto low = static_cast<uint32_t>((octave << kMantissaBits) | (step << (kMantissaBits - kStepBits)));
  const uint32_t middle = low | (1u << (kMantissaBits - kStepBits - 1));
  return std::clamp(static_cast<double>(std::bit_cast<float>(middle)), min_, max_);
}

}  // namespace lathe
