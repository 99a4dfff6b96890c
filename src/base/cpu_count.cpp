// SPDX-License-Identifier: Apache-2.0
//
// How many threads are worth starting. A container often shows all CPUs of its host but may use a few: the
// affinity mask and the quota of the control group say how many. Two hardware threads of one core share its
// vector units, so only cores count. A quota applies at every level of the group tree, so the smallest on the
// way up is the limit.
#include "base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "base/thread_pool.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// "200000" and "100000" -> 2; "max", "-1" or nonsense -> no limit.
std::optional<double> cpus_of_quota(const std::string& quota, const std::string& period) {
  std::istringstream quota_text(quota), period_text(period);
  double quota_us = 0, period_us = 0;
  if (!(quota_text >> quota_us) || !(period_text >> period_us) || quota_us <= 0 || period_us <= 0)
    return std::nullopt;
  return quota_us / period_us;
}

std::optional<double> quota_of_v2_group(const fs::path& group) {
  const auto line = first_line(group / "cpu.max");
  if (!line) return std::nullopt;
  std::istringstream words(*line);
  std::string quota, period;
  words >> quota >> period;
  return cpus_of_quota(quota, period);
}

std::optional<double> quota_of_v1_group(const fs::path& group) {
  const auto quota = first_line(group / "cpu.cfs_quota_us"), period = first_line(group / "cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return cpus_of_quota(*quota, *period);
}

// The smallest quota from `mount`/`group` up to `mount`. Inside a container the path may be one of the host
// and not exist below the mount: the loop then passes through to the mount itself, which is our group there.
template <class QuotaOfGroup>
void limit_by_group(const fs::path& mount, const fs::path& group, QuotaOfGroup quota_of_group,
                    double& limit) {
  for (fs::path at = group.relative_path();; at = at.parent_path()) {
    if (const auto quota = quota_of_group(at.empty() ? mount : mount / at)) limit = std::min(limit, *quota);
    if (at.empty()) return;
  }
}

double group_quota(const fs::path& root) {
  double limit = INFINITY;
  std::ifstream groups(root / "proc/self/cgroup");
  const fs::path mounts = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b" (v2) or "4:cpu,cpuacct:/a/b" (v1)
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = fs::path(line.substr(second + 1)).lexically_normal();
    if (controllers.empty()) {
      limit_by_group(mounts, group, quota_of_v2_group, limit);
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      limit_by_group(mounts / "cpu", group, quota_of_v1_group, limit);
      limit_by_group(mounts / controllers, group, quota_of_v1_group, limit);
    }
  }
  return limit;
}

int physical_cores(const fs::path& root, const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string name = "cpu" + std::to_string(cpu);
    const auto siblings =
        first_line(root / "sys/devices/system/cpu" / name / "topology/thread_siblings_list");
    cores.insert(siblings.value_or(name));
  }
  return static_cast<int>(cores.size());
}

// The affinity mask of a thread. The kernel refuses a buffer smaller than its own masks, so it grows until it
// fits. Empty when even that fails.
class AffinityMask {
 public:
  explicit AffinityMask(pthread_t thread) : thread_(thread) {
    for (size_t count = 1; count <= 1024; count *= 2) {
      sets_.resize(count);  // a cpu_set_t has 1024 CPUs; an array of them has more
      if (pthread_getaffinity_np(thread_, bytes(), sets_.data()) == 0) return;
    }
    sets_.clear();
  }
  int capacity() const { return static_cast<int>(bytes() * 8); }
  bool has(int cpu) const {
    return cpu >= 0 && cpu < capacity() && CPU_ISSET_S(static_cast<size_t>(cpu), bytes(), sets_.data());
  }
  void remove(int cpu) {
    if (cpu >= 0 && cpu < capacity()) CPU_CLR_S(static_cast<size_t>(cpu), bytes(), sets_.data());
  }
  void keep_only(int cpu) {
    CPU_ZERO_S(bytes(), sets_.data());
    CPU_SET_S(static_cast<size_t>(cpu), bytes(), sets_.data());
  }
  bool empty() const { return sets_.empty() || CPU_COUNT_S(bytes(), sets_.data()) == 0; }
  bool apply() const { return pthread_setaffinity_np(thread_, bytes(), sets_.data()) == 0; }

 private:
  size_t bytes() const { return sets_.size() * sizeof(cpu_set_t); }
  pthread_t thread_;
  std::vector<cpu_set_t> sets_;
};

std::vector<int> affinity_cpus() {
  const AffinityMask mask(pthread_self());
  std::vector<int> cpus;
  for (int cpu = 0; cpu < mask.capacity(); ++cpu) {
    if (mask.has(cpu)) cpus.push_back(cpu);
  }
  return cpus;
}

// A changed mask moves a thread at once; the old mask can then be put back.
bool move_thread(pthread_t thread, int cpu) {
  const AffinityMask before(thread);
  if (!before.has(cpu)) return false;
  AffinityMask only = before;
  only.keep_only(cpu);
  return only.apply() && before.apply();
}

}  // namespace

int usable_cpu_count_below(const fs::path& root, const std::vector<int>& cpus) {
  const int cores = physical_cores(root, cpus);
  const double quota = std::ceil(group_quota(root));
  return std::max(1, quota < cores ? static_cast<int>(quota) : cores);
}

int current_cpu() {
  return sched_getcpu();
}

void leave_cpus(const std::vector<int>& taken) {
  const AffinityMask before(pthread_self());
  AffinityMask rest = before;
  for (const int cpu : taken) rest.remove(cpu);
  if (!rest.empty() && rest.apply()) before.apply();
}

void go_to_cpu(int cpu) {
  move_thread(pthread_self(), cpu);
}

bool bring_here(pthread_t thread) {
  return move_thread(thread, current_cpu());
}

int usable_cpu_count() {
  return usable_cpu_count_below("/", affinity_cpus());
}

}  // namespace lathe
