// SPDX-License-Identifier: Apache-2.0
#include "quant/smoothing.h"

#include <algorithm>
#include <cmath>

namespace lathe {

void ChannelRanges::add(std::span<const float> rows, size_t channels) {
  if (ranges_.empty()) ranges_.resize(channels);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!std::isfinite(rows[i])) continue;
    ValueRange& range = ranges_[i % channels];
    range.low = std::min(range.low, rows[i]);
    range.high = std::max(range.high, rows[i]);
  }
}

std::vector<float> smoothing_factors(std::span<const ValueRange> x, std::span<const float> largest_weights,
                                     double strength) {
  std::vector<float> factors(x.size(), 1);
  for (size_t i = 0; i < x.size(); ++i) {
    const double most = static_cast<double>(std::max(-x[i].low, x[i].high)),
                 weight = static_cast<double>(largest_weights[i]);
    if (!(most > 1e-20 && weight > 1e-20)) continue;
    factors[i] =
        static_cast<float>(std::clamp(std::pow(most, strength) / std::pow(weight, 1 - strength), 1e-6, 1e6));
  }
  return factors;
}

ValueRange smoothed_range(std::span<const ValueRange> x, std::span<const float> factors) {
  ValueRange range;
  for (size_t i = 0; i < x.size(); ++i) {
    range.low = std::min(range.low, x[i].low / factors[i]);
    range.high = std::max(range.high, x[i].high / factors[i]);
  }
  return range;
}

}  // namespace lathe
