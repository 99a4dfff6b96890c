// SPDX-License-Identifier: Apache-2.0
//
// Is one series of latencies faster than another, and by how much? The ratio of medians with a 95 % interval
// from a moving-block bootstrap: queries that follow each other are alike (clocks, caches, neighbours), so
// blocks of about the cube root of the series are drawn rather than single queries, which would make the
// interval too narrow. The generator is seeded with a constant: the same files give the same interval.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "explorer/core/comparison.h"

namespace lathe::explorer {
namespace {

constexpr int kResamples = 2000;
constexpr size_t kFewest = 5;
// Longer series are thinned evenly: the interval is narrow by then and the work grows with the length.
constexpr size_t kMost = 4000;

// SplitMix64: the same numbers on every platform.
class Random {
 public:
  size_t below(size_t bound) {
    state_ += 0x9E3779B97F4A7C15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return static_cast<size_t>((z ^ (z >> 31)) % bound);
  }

 private:
  uint64_t state_ = 2026;
};

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::vector<double> thinned(const std::vector<double>& values) {
  if (values.size() <= kMost) return values;
  std::vector<double> result;
  for (size_t i = 0; i < kMost; ++i) result.push_back(values[i * values.size() / kMost]);
  return result;
}

double resampled_median(const std::vector<double>& values, Random& random, std::vector<double>& sample) {
  const auto block =
      static_cast<size_t>(std::max(1.0, std::round(std::cbrt(static_cast<double>(values.size())))));
  sample.clear();
  while (sample.size() < values.size()) {
    const size_t start = random.below(values.size() - block + 1);
    for (size_t i = 0; i < block && sample.size() < values.size(); ++i) sample.push_back(values[start + i]);
  }
  return median_of(sample);
}

}  // namespace

LatencyChange compare_times(const std::vector<double>& baseline, const std::vector<double>& candidate) {
  check(!baseline.empty() && !candidate.empty(), "series to compare are not empty");
  LatencyChange change;
  change.samples = {baseline.size(), candidate.size()};
  std::vector<double> a = baseline, b = candidate;
  change.baseline_ms = median_of(a);
  change.candidate_ms = median_of(b);
  if (change.baseline_ms > 0) change.change_percent = (change.candidate_ms / change.baseline_ms - 1) * 100;
  if (baseline.size() < kFewest || candidate.size() < kFewest || change.baseline_ms <= 0) {
    change.method = fmt::format("no interval: fewer than {} queries", kFewest);
    return change;
  }
  a = thinned(baseline);
  b = thinned(candidate);
  Random random;
  std::vector<double> ratios, sample;
  for (int i = 0; i < kResamples; ++i) {
    const double before = resampled_median(a, random, sample), after = resampled_median(b, random, sample);
    ratios.push_back(before > 0 ? (after / before - 1) * 100 : 0);
  }
  std::sort(ratios.begin(), ratios.end());
  change.low_percent = ratios[static_cast<size_t>(0.025 * kResamples)];
  change.high_percent = ratios[static_cast<size_t>(0.975 * kResamples) - 1];
  change.significant = *change.low_percent > 0 || *change.high_percent < 0;
  change.method =
      fmt::format("moving-block bootstrap of the ratio of medians, {} resamples, fixed seed", kResamples);
  return change;
}

}  // namespace lathe::explorer
