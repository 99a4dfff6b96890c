// SPDX-License-Identifier: Apache-2.0
#include "runtime/profiler.h"

#include "base/error.h"

namespace lathe {
namespace {

constexpr size_t kExactTimes = 1 << 14;  // per layer: an engine may have hundreds

}  // namespace

LayerProfiler::LayerProfiler(std::vector<std::string> layers) : layers_(std::move(layers)) {
  clear();
}

void LayerProfiler::add_run(std::span<const double> time_ms) {
  check(time_ms.size() == layers_.size(), "a profiled run has one time per layer");
  double sum = 0;
  for (size_t i = 0; i < time_ms.size(); ++i) {
    times_[i].add(time_ms[i]);
    sum += time_ms[i];
  }
  sums_.add(sum);
}

void LayerProfiler::clear() {
  times_.assign(layers_.size(), Distribution(kExactTimes));
  sums_ = Distribution();
}

double LayerProfiler::total_ms(size_t layer) const {
  return times_[layer].sum();
}

double LayerProfiler::average_ms(size_t layer) const {
  return times_[layer].mean();
}

double LayerProfiler::median_ms(size_t layer) const {
  return times_[layer].median();
}

double LayerProfiler::total_ms() const {
  return sums_.sum();
}

}  // namespace lathe
