// SPDX-License-Identifier: Apache-2.0
//
// A layer profile: measured times per layer over profiled runs, in bounded memory (base/distribution.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/distribution.h"

namespace lathe {

class LayerProfiler {
 public:
  explicit LayerProfiler(std::vector<std::string> layers);

  // One run's times in milliseconds, in layer order.
  void add_run(std::span<const double> time_ms);
  void clear();

  const std::vector<std::string>& layers() const { return layers_; }
  int runs() const { return static_cast<int>(sums_.count()); }
  const Distribution& times_ms(size_t layer) const { return times_[layer]; }
  // Sums over the layers of a run.
  const Distribution& runs_ms() const { return sums_; }
  double total_ms(size_t layer) const;
  double average_ms(size_t layer) const;
  double median_ms(size_t layer) const;
  double total_ms() const;

 private:
  std::vector<std::string> layers_;
  std::vector<Distribution> times_;  // by layer
  Distribution sums_;
};

}  // namespace lathe
