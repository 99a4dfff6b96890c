// SPDX-License-Identifier: Apache-2.0
//
// A percentile of numbers that come one by one: the value below which a fraction of the sorted numbers lies
// (nearest rank). The work for each number grows with the logarithm of how many there are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <queue>
#include <vector>

namespace lathe {

template <typename Number = double>
class RunningPercentile {
 public:
  explicit RunningPercentile(double fraction) : fraction_(fraction) {}

  void add(Number number) {
    if (!lower_.empty() && number < lower_.top())
      lower_.push(number);
    else
      upper_.push(number);
    const auto rank = static_cast<size_t>(std::ceil(fraction_ * static_cast<double>(count())));
    const size_t wanted = std::clamp<size_t>(rank, 1, count());
    for (; lower_.size() > wanted; lower_.pop()) upper_.push(lower_.top());
    for (; lower_.size() < wanted; upper_.pop()) lower_.push(upper_.top());
  }
  size_t count() const { return lower_.size() + upper_.size(); }
  // Of at least one number.
  Number value() const { return lower_.top(); }

 private:
  struct Greater {
    bool operator()(const Number& a, const Number& b) const { return b < a; }
  };
  struct Less {
    bool operator()(const Number& a, const Number& b) const { return a < b; }
  };
  double fraction_;
  std::priority_queue<Number, std::vector<Number>, Less> lower_;     // the percentile and all below it
  std::priority_queue<Number, std::vector<Number>, Greater> upper_;  // the rest
};

}  // namespace lathe
