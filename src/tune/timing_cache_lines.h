// SPDX-License-Identifier: Apache-2.0
//
// The lines of a timing cache's text (timing_cache.h), for programs that look at them and change times.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tune/timing_cache.h"

namespace lathe {

struct TimingCacheLine {
  TimingCache::Key key;
  double milliseconds = 0;  // 0: a budget ended before its turn
  std::string comment;
};

// All measurements, sorted by key.
std::vector<TimingCacheLine> timing_cache_lines(const TimingCache& cache);
// The cache with another time, more than 0, for a key that is there; nullopt where it is not.
std::optional<TimingCache> with_time(const TimingCache& cache, const TimingCache::Key& key,
                                     double milliseconds);

}  // namespace lathe
