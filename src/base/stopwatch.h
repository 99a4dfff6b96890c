// SPDX-License-Identifier: Apache-2.0
//
// Seconds since an object was made, by the clock that is never set back.
#pragma once

#include <chrono>

namespace lathe {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace lathe
