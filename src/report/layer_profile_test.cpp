// SPDX-License-Identifier: Apache-2.0
#include "report/layer_profile.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "report/captured_log.h"

namespace lathe {
namespace {

TEST(LayerProfile, TableAndJson) {
  LayerProfiler profiler({"a", "idle", "b\"c"});
  profiler.add_run(std::vector<double>{1, 0, 3});
  profiler.add_run(std::vector<double>{2, 0, 4});
  const auto report = summarize_layers(profiler);
  CapturedLog captured;
  print_layer_profile(captured.log(), report);
  EXPECT_EQ(captured.out(), (std::vector<std::string>{
                                "[I] ", "[I] === Profile (2 iterations ) ===",
                                "[I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer",
                                "[I]        3.00       1.5000       1.5000      30.0   a",
                                "[I]        7.00       3.5000       3.5000      70.0   b\"c",
                                "[I]       10.00       5.0000       5.0000     100.0   Total", "[I] "}));
  const Json json = parse_json(profile_json(report), "profile");
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[0]["count"], 2);
  EXPECT_EQ(json[2]["name"], "idle");
  for (const char* key : {"timeMs", "averageMs", "medianMs"}) EXPECT_GT(json[2][key], 0);  // scripts divide
  EXPECT_EQ(json[3]["name"], "b\"c");
  EXPECT_EQ(json[3].size(), 5u);
}

}  // namespace
}  // namespace lathe
