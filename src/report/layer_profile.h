// SPDX-License-Identifier: Apache-2.0
//
// Times per layer over the iterations of a profiling run, as rows; the table of --dumpProfile and the file of
// --exportProfile are views of them.
#pragma once

#include <string>
#include <vector>

#include "report/log.h"
#include "runtime/profiler.h"

namespace lathe {

struct LayerProfileReport {
  struct Row {
    std::string name;
    float total_ms = 0, average_ms = 0, median_ms = 0, percentage = 0;
  };
  int iterations = 0;
  std::vector<Row> layers;  // in execution order
  Row total;                // its median is over the sums of each iteration
};
LayerProfileReport summarize_layers(const LayerProfiler& profiler);

void print_layer_profile(Log& log, const LayerProfileReport& report);
// The text of --exportProfile.
std::string profile_json(const LayerProfileReport& report);

}  // namespace lathe
