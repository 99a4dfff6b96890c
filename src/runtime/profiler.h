// SPDX-License-Identifier: Apache-2.0
//
// A layer profile: measured times per layer, one row per profiled run.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lathe {

class LayerProfiler {
 public:
  explicit LayerProfiler(std::vector<std::string> layers);

  // One run's times in milliseconds, in layer order.
  void add_run(std::span<const double> time_ms);
  void clear();

  const std::vector<std::string>& layers() const { return layers_; }
  int runs() const { return static_cast<int>(runs_); }
  // All times of one layer, in run order.
  const std::vector<float>& times_ms(size_t layer) const { return times_[layer]; }
  double total_ms(size_t layer) const;
  double average_ms(size_t layer) const;
  double median_ms(size_t layer) const;
  double total_ms() const;

 private:
  std::vector<std::string> layers_;
  std::vector<std::vector<float>> times_;  // by layer
  size_t runs_ = 0;
};

}  // namespace lathe
