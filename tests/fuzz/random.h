// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "reference/random_input.h"

namespace fuzz {

// Choices from the seed of a case.
class Random {
 public:
  explicit Random(uint64_t seed) : stream_(seed) {}

  int64_t below(int64_t count) { return stream_.integer(0, count - 1); }
  bool chance(double share) { return stream_.uniform() < share; }
  template <class T>
  T& pick(std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[below(static_cast<int64_t>(from.size()))];
  }
  uint64_t seed() { return stream_.next(); }

 private:
  lathe::RandomStream stream_;
};

}  // namespace fuzz
