// SPDX-License-Identifier: Apache-2.0
//
// Ranges with names on a profiler's timeline (NVTX, where its headers were there when Lathe was built). Where
// no tool listens, a range is two tests of a pointer.
#pragma once

#include <string>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

namespace lathe::cuda {

class TimelineRange {
 public:
#if __has_include(<nvtx3/nvToolsExt.h>)
  explicit TimelineRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~TimelineRange() { nvtxRangePop(); }
#else
  explicit TimelineRange(const std::string&) {}
#endif
  TimelineRange(const TimelineRange&) = delete;
  TimelineRange& operator=(const TimelineRange&) = delete;
};

}  // namespace lathe::cuda
