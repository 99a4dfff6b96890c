// SPDX-License-Identifier: Apache-2.0
//
// SmoothQuant: a channel of a product's input that is much larger than the others takes the whole grid for
// itself. Divided by a factor, with the factor in its row of the weights, it does not, and the product is the
// same.
#pragma once

#include <span>
#include <vector>

#include "quant/observer.h"

namespace lathe {

// The least and the largest element of each index of the last dim, over all samples.
class ChannelRanges {
 public:
  // Whole rows; elements that are not finite count for nothing.
  void add(std::span<const float> rows, size_t channels);
  const std::vector<ValueRange>& ranges() const { return ranges_; }

 private:
  std::vector<ValueRange> ranges_;
};

// By channel: |x|^strength / |w|^(1 - strength) of the largest magnitudes of both, and 1 where either is
// zero.
std::vector<float> smoothing_factors(std::span<const ValueRange> x, std::span<const float> largest_weights,
                                     double strength);
// Of x divided by the factors.
ValueRange smoothed_range(std::span<const ValueRange> x, std::span<const float> factors);

}  // namespace lathe
