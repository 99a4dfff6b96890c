// SPDX-License-Identifier: Apache-2.0
//
// What usable_cpu_count() is made of, apart so that it can be tested on a made-up /proc and /sys.
#pragma once

#include <filesystem>
#include <vector>

namespace lathe {

// min(cores behind `cpus`, CPU quota of our control group and its parents rounded up), at least 1. `root` is "/" in
// earnest; what cannot be read counts as no limit.
int usable_cpu_count_below(const std::filesystem::path& root, const std::vector<int>& cpus);

}  // namespace lathe
