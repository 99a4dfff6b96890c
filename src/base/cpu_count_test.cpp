// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_count.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

#include "base/thread_pool.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

class CpuCount : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "lathe_cpus_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  int count(const std::vector<int>& cpus) { return usable_cpu_count_below(root_, cpus); }

  fs::path root_;
  const std::vector<int> four_ = {0, 1, 2, 3};
};

TEST_F(CpuCount, WithoutAnyInformationEachCpuCounts) {
  EXPECT_EQ(count(four_), 4);
  EXPECT_EQ(count({}), 1);
}

TEST_F(CpuCount, HardwareThreadsOfACoreCountOnce) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    put("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        cpu % 2 == 0 ? "0,2" : "1,3");
  }
  EXPECT_EQ(count(four_), 2);
  EXPECT_EQ(count({0}), 1);
}

TEST_F(CpuCount, V2QuotaIsRoundedUp) {
  put("proc/self/cgroup", "0::/");
  put("sys/fs/cgroup/cpu.max", "150000 100000");
  EXPECT_EQ(count(four_), 2);
  put("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(count(four_), 4);
  put("sys/fs/cgroup/cpu.max", "1000 100000");
  EXPECT_EQ(count(four_), 1);
}

TEST_F(CpuCount, AParentsQuotaCounts) {
  put("proc/self/cgroup", "0::/a/b/c");
  put("sys/fs/cgroup/a/b/c/cpu.max", "max 100000");
  put("sys/fs/cgroup/a/cpu.max", "200000 100000");
  EXPECT_EQ(count(four_), 2);
}

TEST_F(CpuCount, V1Quota) {
  put("proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/docker/x\n0::/");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us",
      "300000");  // what a container sees: its group is the mount
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(count(four_), 3);
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(count(four_), 4);
}

TEST_F(CpuCount, NonsenseIsNoLimit) {
  put("proc/self/cgroup", "0::/../..");
  put("sys/fs/cgroup/cpu.max", "abc");
  EXPECT_EQ(count(four_), 4);
}

TEST_F(CpuCount, ThisMachineHasAtLeastOne) {
  EXPECT_GE(usable_cpu_count(), 1);
}

}  // namespace
}  // namespace lathe
