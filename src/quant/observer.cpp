// SPDX-License-Identifier: Apache-2.0
//
// The histogram reaches from minus to plus a power of two. When an element lies beyond, the power doubles and
// bins are added up in pairs, so that one pass over data of unknown range is enough and every element stays
// within one bin of where it was.
#include "quant/observer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace lathe {
namespace {

constexpr int kLevels = 256;
constexpr int64_t kFewest = 10000;  // elements of a distribution

}  // namespace

CalibrationMethod calibration_method_from_name(std::string_view name) {
  if (name == "max") return CalibrationMethod::Max;
  if (name == "percentile") return CalibrationMethod::Percentile;
  if (name == "entropy") return CalibrationMethod::Entropy;
  if (name == "mse") return CalibrationMethod::Mse;
  throw_input_error("unknown calibration method '" + std::string(name) +
                    "': use max, percentile, entropy or mse");
}

void RangeObserver::add(std::span<const float> elements) {
  float low = std::numeric_limits<float>::infinity(), high = -low;
  int64_t bad = 0;
  for (const float x : elements) {
    if (!std::isfinite(x)) {
      ++bad;
      continue;
    }
    low = std::min(low, x);
    high = std::max(high, x);
  }
  not_finite_ += bad;
  const int64_t good = static_cast<int64_t>(elements.size()) - bad;
  if (good == 0) return;
  least_ = count_ > 0 ? std::min(least_, low) : low;
  most_ = count_ > 0 ? std::max(most_, high) : high;
  count_ += good;
  widen(std::max(std::abs(low), std::abs(high)));
  const double per_bin = 1 / width();
  for (const float x : elements) {
    if (bad > 0 && !std::isfinite(x)) continue;
    // Counted from the lowest bin on, so that cutting off the fraction rounds down, in one instruction.
    const auto at = static_cast<int64_t>(static_cast<double>(x) * per_bin + kHalf);
    ++bins_[static_cast<size_t>(std::clamp<int64_t>(at, 0, 2 * kHalf - 1))];
  }
}

void ChannelMeans::add(std::span<const float> elements, const std::vector<int64_t>& extents) {
  const auto channels = static_cast<size_t>(extents.at(1));
  size_t inner = 1;
  for (size_t d = 2; d < extents.size(); ++d) inner *= static_cast<size_t>(extents[d]);
  sums_.resize(channels, 0);
  for (size_t run = 0; run * inner < elements.size(); ++run)
    for (size_t i = 0; i < inner; ++i)
      sums_[run % channels] += static_cast<double>(elements[run * inner + i]);
  count_ += static_cast<int64_t>(elements.size() / channels);
}

std::vector<double> ChannelMeans::means() const {
  std::vector<double> means = sums_;
  for (double& mean : means) mean /= static_cast<double>(std::max<int64_t>(1, count_));
  return means;
}

void RangeObserver::widen(float magnitude) {
  if (bins_.empty()) {
    bins_.assign(2 * kHalf, 0);
    limit_ = magnitude > 0 ? std::exp2(std::ceil(std::log2(static_cast<double>(magnitude)))) : 0x1p-100;
  }
  while (limit_ < static_cast<double>(magnitude)) {
    std::vector<int64_t> pairs(bins_.size(), 0);
    for (int64_t i = -kHalf; i < kHalf; ++i)
      pairs[static_cast<size_t>(kHalf + (i >> 1))] += bins_[static_cast<size_t>(kHalf + i)];
    bins_ = std::move(pairs);
    limit_ *= 2;
  }
}

ValueRange RangeObserver::range(const CalibrationOptions& options) const {
  if (count_ == 0) return {};
  switch (options.method) {
    case CalibrationMethod::Max:
      return extremes();
    case CalibrationMethod::Percentile: {
      const double beyond = 1 - options.percentile / 100;
      return {std::max(least_, end_of(beyond, false)), std::min(most_, end_of(beyond, true))};
    }
    case CalibrationMethod::Entropy:
      return least_divergence();
    case CalibrationMethod::Mse:
      return least_error();
  }
  return extremes();
}

// Where the outermost `share` of the elements ends, coming from below or from above.
float RangeObserver::end_of(double share, bool from_above) const {
  const double wanted = share * static_cast<double>(count_);
  double passed = 0;
  for (int64_t i = 0; i < 2 * kHalf; ++i) {
    const int64_t bin = from_above ? 2 * kHalf - 1 - i : i;
    passed += static_cast<double>(bins_[static_cast<size_t>(bin)]);
    if (passed > wanted) return static_cast<float>((bin - kHalf + (from_above ? 1 : 0)) * width());
  }
  return from_above ? most_ : least_;
}

// Magnitudes are cut at a bin; what lies beyond counts to the last one. What is kept of them are 128 levels:
// the elements of a level, spread over its bins that are not empty. The cut with the least divergence between
// the two distributions wins. The zeros behind a Relu say nothing about the range, and would outweigh
// everything else: the first bin counts as its neighbour. Of few elements a histogram is no distribution:
// then all are covered.
ValueRange RangeObserver::least_divergence() const {
  if (count_ < kFewest) return extremes();
  std::vector<double> magnitudes(kHalf, 0);
  for (int64_t i = 0; i < kHalf; ++i)
    magnitudes[static_cast<size_t>(i)] = static_cast<double>(bins_[static_cast<size_t>(kHalf + i)] +
                                                             bins_[static_cast<size_t>(kHalf - 1 - i)]);
  magnitudes[0] = magnitudes[1];
  const double all = std::accumulate(magnitudes.begin(), magnitudes.end(), 0.0);
  if (all == 0) return extremes();
  constexpr int64_t kKept = kLevels / 2;
  double beyond = 0, least = std::numeric_limits<double>::infinity();
  int64_t best = kHalf;
  for (int64_t cut = kHalf; cut >= kKept; --cut) {
    if (cut < kHalf) beyond += magnitudes[static_cast<size_t>(cut)];
    std::vector<double> kept(static_cast<size_t>(cut), 0);
    for (int64_t level = 0; level < kKept; ++level) {
      const int64_t begin = cut * level / kKept, end = cut * (level + 1) / kKept;
      double sum = 0, used = 0;
      for (int64_t i = begin; i < end; ++i) {
        sum += magnitudes[static_cast<size_t>(i)];
        used += magnitudes[static_cast<size_t>(i)] > 0;
      }
      for (int64_t i = begin; i < end; ++i)
        if (magnitudes[static_cast<size_t>(i)] > 0) kept[static_cast<size_t>(i)] = sum / used;
    }
    double divergence = 0, all_kept = 0;
    for (const double k : kept) all_kept += k;
    for (int64_t i = 0; i < cut; ++i) {
      const double seen = magnitudes[static_cast<size_t>(i)] + (i + 1 == cut ? beyond : 0);
      if (seen <= 0) continue;
      // A level without elements beside what was cut off: the smallest share that is not zero.
      const double share = std::max(kept[static_cast<size_t>(i)] / all_kept, 1e-12);
      divergence += seen / all * std::log(seen / all / share);
    }
    if (divergence < least) {
      least = divergence;
      best = cut;
    }
  }
  const auto limit = static_cast<float>(best * width());
  return {std::max(least_, -limit), std::min(most_, limit)};
}

// The extremes, drawn in by the same factor at both ends.
ValueRange RangeObserver::least_error() const {
  constexpr int kSteps = 100;
  ValueRange best = extremes();
  double least = error_of(best);
  for (int i = 1; i < kSteps; ++i) {
    const float factor = 1 - static_cast<float>(i) / kSteps;
    const ValueRange drawn_in{least_ * factor, most_ * factor};
    const double error = error_of(drawn_in);
    if (error >= least) continue;
    least = error;
    best = drawn_in;
  }
  return best;
}

// Inside, the error is that of rounding to a multiple of the step; outside, the way to the nearest end.
double RangeObserver::error_of(const ValueRange& range) const {
  const double low = std::min(0.0, static_cast<double>(range.low)),
               high = std::max(0.0, static_cast<double>(range.high)), step = (high - low) / (kLevels - 1);
  double error = 0;
  for (int64_t i = 0; i < 2 * kHalf; ++i) {
    const auto elements = static_cast<double>(bins_[static_cast<size_t>(i)]);
    if (elements == 0) continue;
    const double x = (static_cast<double>(i - kHalf) + 0.5) * width();
    const double away = std::max({low - x, x - high, 0.0});
    error += elements * (away > 0 ? away * away : step * step / 12);
  }
  return error;
}

}  // namespace lathe
