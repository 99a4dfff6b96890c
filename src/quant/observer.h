// SPDX-License-Identifier: Apache-2.0
//
// What the elements of a tensor were, over all samples of a calibration, in a fixed amount of memory; and the
// range that a grid should cover by one of four methods.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lathe {

enum class CalibrationMethod : uint8_t {
  Max,  // all that was seen
  Percentile /* all but a share at both ends */,
  Entropy /* the least Kullback-Leibler divergence between what was seen and what is kept of it */,
  Mse /* the least squared error */
};
// Throws Input for an unknown name; "max", "percentile", "entropy", "mse".
CalibrationMethod calibration_method_from_name(std::string_view name);

struct CalibrationOptions {
  CalibrationMethod method = CalibrationMethod::Max;
  double percentile = 99.99;  // of elements that are covered
};

struct ValueRange {
  float low = 0, high = 0;
  bool operator==(const ValueRange&) const = default;
};

class RangeObserver {
 public:
  void add(std::span<const float> elements);

  int64_t count() const { return count_; }
  int64_t not_finite() const {
    return not_finite_;
  }  // elements that were NaN or infinite; they are not counted
  ValueRange extremes() const { return {least_, most_}; }
  // What a grid of 256 numbers should cover. Nothing seen: [0, 0].
  ValueRange range(const CalibrationOptions& options) const;

 private:
  static constexpr int64_t kHalf = 2048;  // bins on either side of zero
  void widen(float magnitude);
  double width() const { return limit_ / kHalf; }
  float end_of(double share, bool from_above) const;
  ValueRange least_divergence() const;
  ValueRange least_error() const;
  double error_of(const ValueRange& range) const;

  // bins_[kHalf + i] counts elements from i times the width to the next one.
  std::vector<int64_t> bins_;
  double limit_ = 0;  // of magnitudes; a power of two
  int64_t count_ = 0, not_finite_ = 0;
  float least_ = 0, most_ = 0;
};

// The mean of each index of dim 1 (the channels of an image, the elements of a row), over all samples.
class ChannelMeans {
 public:
  void add(std::span<const float> elements, const std::vector<int64_t>& extents);
  std::vector<double> means() const;

 private:
  std::vector<double> sums_;
  int64_t count_ = 0;  // of each channel
};

}  // namespace lathe
