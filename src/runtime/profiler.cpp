// SPDX-License-Identifier: Apache-2.0
#include "runtime/profiler.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace lathe {

LayerProfiler::LayerProfiler(std::vector<std::string> layers)
    : layers_(std::move(layers)), times_(layers_.size()) {}

void LayerProfiler::add_run(std::span<const double> time_ms) {
  check(time_ms.size() == layers_.size(), "a profiled run has one time per layer");
  for (size_t i = 0; i < time_ms.size(); ++i) times_[i].push_back(static_cast<float>(time_ms[i]));
  ++runs_;
}

void LayerProfiler::clear() {
  for (auto& t : times_) t.clear();
  runs_ = 0;
}

double LayerProfiler::total_ms(size_t layer) const {
  return std::accumulate(times_[layer].begin(), times_[layer].end(), 0.0);
}

double LayerProfiler::average_ms(size_t layer) const {
  return runs_ == 0 ? 0 : total_ms(layer) / static_cast<double>(runs_);
}

double LayerProfiler::median_ms(size_t layer) const {
  if (runs_ == 0) return 0;
  std::vector<float> sorted = times_[layer];
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (static_cast<double>(sorted[half - 1]) + sorted[half]) / 2;
}

double LayerProfiler::total_ms() const {
  double sum = 0;
  for (size_t i = 0; i < layers_.size(); ++i) sum += total_ms(i);
  return sum;
}

}  // namespace lathe
