// SPDX-License-Identifier: Apache-2.0
//
// CPUs: what usable_cpu_count() is made of, apart so that it can be tested on a made-up /proc and /sys, and
// on which one a thread runs.
#pragma once

#include <pthread.h>

#include <filesystem>
#include <vector>

namespace lathe {

// min(cores behind `cpus`, CPU quota of our control group and its parents rounded up), at least 1. `root` is
// "/" in earnest; what cannot be read counts as no limit.
int usable_cpu_count_below(const std::filesystem::path& root, const std::vector<int>& cpus);

// The CPU that this thread runs on at this moment, or -1.
int current_cpu();
// Makes the scheduler move this thread to a CPU that is not in `taken`, if it may use one; afterwards the
// thread may run anywhere it could before.
void leave_cpus(const std::vector<int>& taken);
// The same with one CPU to go to; a CPU that this thread may not use is ignored.
void go_to_cpu(int cpu);
// Makes the scheduler move `thread` to the CPU of the calling thread; false when it may not run there.
bool bring_here(pthread_t thread);

}  // namespace lathe
