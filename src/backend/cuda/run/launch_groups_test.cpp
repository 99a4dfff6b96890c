// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/launch_groups.h"

#include <gtest/gtest.h>

namespace lathe::cuda {
namespace {

// Memory by number: a hundred bytes each.
MemoryRange place(int64_t number) {
  static const char base[1] = {};
  return {base + 100 * number, 100};
}
std::vector<MemoryRange> places(const std::vector<int64_t>& numbers) {
  std::vector<MemoryRange> all;
  for (const int64_t n : numbers) all.push_back(place(n));
  return all;
}
LayerUse layer(const std::vector<int64_t>& reads, const std::vector<int64_t>& writes,
               const std::vector<int64_t>& late = {}) {
  return {.is_launched = true,
          .overlap = {.takes_order = true, .may_wait_late = true},
          .reads = places(reads),
          .late_reads = places(late),
          .writes = places(writes)};
}
LayerUse without_order(LayerUse use) {
  use.overlap = {};
  return use;
}

constexpr LaunchOrder kWaits, kLeads{.place = LaunchPlace::Leads}, kFollows{.place = LaunchPlace::Follows},
    kFollowsLate{.place = LaunchPlace::Follows, .waits_late = true};
using Orders = std::vector<LaunchOrder>;

TEST(LaunchGroups, ReadersOfOneValueOverlap) {
  EXPECT_EQ(
      group_launches({layer({0}, {1}), layer({1}, {2}), layer({1}, {3}), layer({1}, {4}), layer({2}, {5})}),
      (Orders{kWaits, kLeads, kFollows, kFollows, kWaits}));
}

TEST(LaunchGroups, AGateIsReadLate) {
  EXPECT_EQ(group_launches({layer({0}, {1}), layer({0}, {2}, {1}), layer({2}, {3})}),
            (Orders{kLeads, kFollowsLate, kWaits}));
  // In place of the gate.
  EXPECT_EQ(group_launches({layer({0}, {1}), layer({0}, {1}, {1})}), (Orders{kLeads, kFollowsLate}));
}

TEST(LaunchGroups, MemoryThatIsUsedAgainIsWaitedFor) {
  LayerUse second = layer({2}, {0});  // into what the first one reads
  EXPECT_EQ(group_launches({layer({0}, {1}), second}), (Orders{kLeads, kFollowsLate}));
  second.overlap.may_wait_late = false;
  EXPECT_EQ(group_launches({layer({0}, {1}), second}), (Orders{kWaits, kWaits}));
  // Ranges that share a byte.
  LayerUse shifted = layer({}, {});
  shifted.reads = {{static_cast<const char*>(place(1).address) + 99, 2}};
  EXPECT_EQ(group_launches({layer({0}, {1}), shifted}), (Orders{kWaits, kWaits}));
}

TEST(LaunchGroups, NobodyOvertakesALayerThatTakesNoOrder) {
  EXPECT_EQ(group_launches({layer({0}, {1}), without_order(layer({0}, {2})), layer({0}, {3})}),
            (Orders{kWaits, kWaits, kWaits}));
  LayerUse view;
  EXPECT_EQ(group_launches({layer({0}, {1}), view, layer({0}, {2})}), (Orders{kLeads, kWaits, kFollows}));
}

TEST(LaunchGroups, APartOfAConcatIsReadLate) {
  LayerUse concat = layer({5, 1}, {6});
  concat.overlap = {.takes_order = true, .waits_by_input = true};
  EXPECT_EQ(group_launches({layer({0}, {1}), layer({0}, {2}), concat}),
            (Orders{kLeads, kFollows, {.place = LaunchPlace::Follows, .late_inputs = 2}}));
  concat.writes = places({0});
  EXPECT_EQ(group_launches({layer({0}, {1}), concat}), (Orders{kWaits, kWaits}));
}

TEST(LaunchGroups, AMemberConflictsWithAnyInFront) {
  EXPECT_EQ(group_launches({layer({0}, {1}), layer({0}, {2}), layer({1}, {3})}),
            (Orders{kLeads, kFollows, kWaits}));
}

}  // namespace
}  // namespace lathe::cuda
